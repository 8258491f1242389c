#ifndef ISOBIT_RUNTIME_JSON_STRICT_JSON_H_
#define ISOBIT_RUNTIME_JSON_STRICT_JSON_H_

// JSON from outside, read strictly: RFC 8259 and nothing more, valid UTF-8, every name of an object
// once, bounded depth. Never throws and never recurses, whatever the input.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace isobit {

// The depth of a request is 3, {"messages": [{...}]}, but for the schemas of tools.
inline constexpr int kMaxJsonDepth = 64;

// InvalidArgument says what is wrong and at which byte. Integers beyond 64 bits come back as
// floating-point numbers, so that readers of integers can refuse them by name.
absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text);
// The same, the members of every object in the order of the text. Its objects look for a name among
// all members, one after the other: what reads many of them goes over items().
absl::StatusOr<nlohmann::ordered_json> ParseStrictJsonInOrder(std::string_view text);

// A value as it stands in an error message: JSON in ASCII, shortened.
std::string DescribeJson(const nlohmann::json& value);

// Readers of one value. An error is InvalidArgument: "<name> must be an integer, got "x"".
absl::Status ReadJson(const nlohmann::json& value, std::string_view name, bool& out);
absl::Status ReadJson(const nlohmann::json& value, std::string_view name, int32_t& out);
absl::Status ReadJson(const nlohmann::json& value, std::string_view name, int64_t& out);
absl::Status ReadJson(const nlohmann::json& value, std::string_view name, uint64_t& out);
absl::Status ReadJson(const nlohmann::json& value, std::string_view name, double& out);
absl::Status ReadJson(const nlohmann::json& value, std::string_view name, std::string& out);
absl::Status ReadJson(const nlohmann::json& value, std::string_view name,
                      std::vector<int32_t>& out);

// null is none.
template <typename T>
absl::Status ReadJson(const nlohmann::json& value, std::string_view name, std::optional<T>& out) {
  if (value.is_null()) {
    out.reset();
    return absl::OkStatus();
  }
  return ReadJson(value, name, out.emplace());
}

// "<name> must be <what>, got <value>"
absl::Status JsonTypeError(std::string_view name, std::string_view what,
                           const nlohmann::json& value);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_JSON_STRICT_JSON_H_
