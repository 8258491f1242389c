#ifndef ISOBIT_RUNTIME_TEXT_JINJA_JSON_VALUE_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_JSON_VALUE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// JSON as a value; objects keep their order. InvalidArgument for what ParseStrictJson refuses and
// for an integer of 2^63 or more.
absl::StatusOr<Value> FromJson(std::string_view json);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_JSON_VALUE_H_
