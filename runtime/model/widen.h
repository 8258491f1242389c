// Widening of stored weights to bf16, the only weight type that the contract computes with.
#ifndef ISOBIT_RUNTIME_MODEL_WIDEN_H_
#define ISOBIT_RUNTIME_MODEL_WIDEN_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/numerics/bf16.h"
#include "runtime/model/tensor_type.h"

namespace isobit {

// Ok if WidenRow and DequantizeRow know `type`; otherwise Unimplemented, naming the type and
// those that are supported.
absl::Status CheckWidenable(TensorType type);

// out[0..n) = the n elements of a stored row, dequantised in fp32 in the operations and order that
// the format defines (ggml's reference; d * q, d * q + m, (d * scale) * q), then rounded once to
// bf16, to nearest even. NaN and infinity are kept. `src` need not be aligned.
// REQUIRES: CheckWidenable(type).ok(), n >= 0 and a multiple of the type's block.
// Thread-safe; no state.
void WidenRow(TensorType type, const std::byte* src, int64_t n, Bf16* out);

// As WidenRow, without the last rounding. For norm weights, biases and tests.
void DequantizeRow(TensorType type, const std::byte* src, int64_t n, float* out);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_WIDEN_H_
