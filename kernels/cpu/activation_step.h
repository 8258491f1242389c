#ifndef ISOBIT_KERNELS_CPU_ACTIVATION_STEP_H_
#define ISOBIT_KERNELS_CPU_ACTIVATION_STEP_H_

// The row operand of dot16 in vectors: activations of GEMM, queries and probabilities of attention.

#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/cpu/dot16_limits.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/dot16.h"

namespace isobit {

// 16 elements of one row as the inner loops read them.
struct alignas(64) ActivationStep {
  float value[kDotTerms];
  // kTile: kActivationTop less the exponent field, 255 for a zero, in each of four bytes.
  // kRow: the exponent field, 0 for a zero, at bit 7 of both 16-bit halves.
  uint32_t exponent[kDotTerms];
};

enum class ActivationForm { kRow, kTile };

// What an inner loop has to do for a step.
enum class StepKind : uint8_t {
  kZero,     // nothing: all 16 are 0
  kSafe,     // the sum of the 16 products and C fits an int32
  kMayWrap,  // it may not fit: to be watched
};

// Splits a row of `cols` elements into ceil(cols / 16) steps, the last one padded with zeros.
// Returns the exponents of the row; if they are not finite, every kind is kZero.
using PrepareRowFunction = ExponentRange (*)(const Bf16* x, int64_t cols, ActivationForm form,
                                             ActivationStep* steps, StepKind* kinds);

PrepareRowFunction SelectPrepareRow(const CpuContext& context);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_ACTIVATION_STEP_H_
