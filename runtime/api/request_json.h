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

// The same from a document that was parsed already.
absl::StatusOr<Request> ReadRequest(const nlohmann::ordered_json& object);

// One line, without its end; ParseRequest gives back an equal request.
std::string RequestToJson(const Request& request);

// The value of "messages": at least one, each {"role": text, "content": text}, and what chat
// templates know besides (name, tool_calls, tool_call_id, reasoning_content, reasoning, thinking).
// Content may be a list of parts, and beside tool_calls null or missing. Objects keep their order
// for the template, which may print them.
absl::Status ReadMessages(const nlohmann::ordered_json& value, std::string_view name,
                          std::vector<ChatMessage>& out);

// Values of "tools" and "chat_template_kwargs", as JSON: a list of objects, an object.
absl::Status ReadTools(const nlohmann::ordered_json& value, std::string_view name,
                       std::string& out);
absl::Status ReadChatTemplateKwargs(const nlohmann::ordered_json& value, std::string_view name,
                                    std::string& out);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_REQUEST_JSON_H_
