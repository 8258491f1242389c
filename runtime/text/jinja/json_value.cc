#include "runtime/text/jinja/json_value.h"

#include <string>
#include <utility>

#include "runtime/json/strict_json.h"

namespace isobit::jinja {
namespace {

using Json = nlohmann::ordered_json;

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
  const absl::StatusOr<Json> parsed = ParseStrictJsonInOrder(json);
  return parsed.ok() ? Convert(*parsed) : parsed.status();
}

}  // namespace isobit::jinja
