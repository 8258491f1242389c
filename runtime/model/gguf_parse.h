// Internal to gguf.cc: turns the bytes of a GGUF file into checked fields and tensors.
#ifndef ISOBIT_RUNTIME_MODEL_GGUF_PARSE_H_
#define ISOBIT_RUNTIME_MODEL_GGUF_PARSE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/gguf.h"

namespace isobit::gguf_internal {

struct Contents {
  uint32_t version = 0;
  std::vector<GgufField> fields;    // keys are unique
  std::vector<GgufTensor> tensors;  // names are unique, data in bounds and disjoint
};

// Messages don't name the file; the caller adds its path.
absl::StatusOr<Contents> Parse(std::span<const std::byte> file);

// Bytes of a scalar of this type; 0 for strings and arrays.
size_t ScalarBytes(GgufType type);

}  // namespace isobit::gguf_internal

#endif  // ISOBIT_RUNTIME_MODEL_GGUF_PARSE_H_
