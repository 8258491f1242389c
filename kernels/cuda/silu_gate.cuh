#ifndef ISOBIT_KERNELS_CUDA_SILU_GATE_CUH_
#define ISOBIT_KERNELS_CUDA_SILU_GATE_CUH_

// SiluGate of kernels/numerics/scalar.h, the same bits, at a fifth of its cost.
//
// SiLU is rounded to bf16 before the multiplication, so all but a few of its bits are thrown away.
// The hardware's exp2 and reciprocal are good to about 2^-21. Unless that leaves it open to which
// side of the middle between two bf16 the value lies, the rounded result is the contract's;
// otherwise (one gate in about a thousand) the contract's own function is computed. There are only
// 65536 gates: a test compares all of them.

#include <cstdint>

#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/scalar.h"

namespace isobit::cuda {

// Silu(x), or a number that rounds to the same bf16.
__device__ inline float SiluForBf16(float x) {
  // The argument of exp2 is rounded as in Silu: that rounding error is not small.
  const float exp_minus_x = sm90::ApproximateExp2(ieee::Mul(x, -kLog2E));
  const float y = ieee::Mul(x, sm90::ApproximateReciprocal(ieee::Add(1.0f, exp_minus_x)));
  // Distance from the middle between two bf16, in ulps of fp32, against the error's 16 or so.
  constexpr uint32_t kMargin = 32;
  const uint32_t from_margin = (FloatBits(y) - (0x8000u - kMargin)) & 0xffffu;
  return from_margin <= 2 * kMargin ? Silu(x) : y;
}

// SiluGate for two neighbouring outputs. Each argument holds gate (low half) and up; the result
// holds both outputs.
__device__ inline uint32_t SiluGatePair(uint32_t first, uint32_t second) {
  const uint32_t activated = sm90::RoundToBf16Pair(SiluForBf16(BitsFloat(first << 16)),
                                                   SiluForBf16(BitsFloat(second << 16)));
  return sm90::RoundToBf16Pair(
      ieee::Mul(BitsFloat(activated << 16), BitsFloat(first & 0xffff0000u)),
      ieee::Mul(BitsFloat(activated & 0xffff0000u), BitsFloat(second & 0xffff0000u)));
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_SILU_GATE_CUH_
