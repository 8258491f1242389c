#ifndef ISOBIT_RUNTIME_TEXT_JINJA_JSON_VALUE_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_JSON_VALUE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "runtime/text/jinja/value.h"

namespace isobit::jinja {

// JSON as a value. Objects keep their order; of a name that is there twice the last value counts.
// InvalidArgument for what is not JSON, nests deeper than 64, or has an integer beyond 64 bits.
absl::StatusOr<Value> FromJson(std::string_view json);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_JSON_VALUE_H_
