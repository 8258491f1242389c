#include "runtime/model/stored_tensor.h"

#include "absl/strings/str_join.h"

namespace isobit {

std::string PrintShape(std::span<const int64_t> shape) {
  return shape.empty() ? "a scalar" : absl::StrJoin(shape, " x ");
}

}  // namespace isobit
