#ifndef ISOBIT_RUNTIME_API_REQUEST_JSON_H_
#define ISOBIT_RUNTIME_API_REQUEST_JSON_H_

// Requests as JSON, one object a line.
//
// Reading is strict: an unknown field, a value of another type and a missing prompt are errors that
// name the field. What depends on the model or on ranges is checked when the request is submitted.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "runtime/engine/request.h"

namespace isobit {

// The longest line that is read: a few million token ids.
inline constexpr size_t kMaxRequestBytes = size_t{16} << 20;

struct ParsedRequest {
  // As far as it could be read, so that an error can be told apart from those of other requests.
  std::optional<std::string> id;
  absl::StatusOr<Request> request;
};

// InvalidArgument for anything that is not a request.
ParsedRequest ParseRequest(std::string_view line);

// One line, without its end; ParseRequest gives back an equal request.
std::string RequestToJson(const Request& request);

// The value of "messages": at least one, each {"role": text, "content": text}.
absl::Status ReadMessages(const nlohmann::json& value, std::string_view name,
                          std::vector<ChatMessage>& out);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_REQUEST_JSON_H_
