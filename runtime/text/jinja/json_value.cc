#include "runtime/text/jinja/json_value.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace isobit::jinja {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxDepth = 64;

// The depth is bounded, so recursion is safe.
absl::StatusOr<Value> Convert(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
      return Value();
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX) {
        return absl::InvalidArgumentError("an integer is larger than 2^63-1");
      }
      return Value(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(json.get<std::string>());
    default:
      break;
  }
  if (json.is_array()) {
    List list;
    for (const Json& element : json) {
      absl::StatusOr<Value> value = Convert(element);
      if (!value.ok()) return value;
      list.push_back(*std::move(value));
    }
    return Value(std::move(list));
  }
  Map map;
  for (const auto& [key, element] : json.items()) {
    absl::StatusOr<Value> value = Convert(element);
    if (!value.ok()) return value;
    map.entries.emplace_back(key, *std::move(value));
  }
  return Value(std::move(map));
}

}  // namespace

absl::StatusOr<Value> FromJson(std::string_view json) {
  bool too_deep = false;
  const Json parsed = Json::parse(
      json.begin(), json.end(),
      [&too_deep](int depth, Json::parse_event_t, Json&) {
        return !(too_deep = too_deep || depth > kMaxDepth);
      },
      /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(absl::StrCat("JSON is nested deeper than ", kMaxDepth));
  }
  if (parsed.is_discarded()) return absl::InvalidArgumentError("not valid JSON");
  return Convert(parsed);
}

}  // namespace isobit::jinja
