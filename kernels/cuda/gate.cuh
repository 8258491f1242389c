#ifndef ISOBIT_KERNELS_CUDA_GATE_CUH_
#define ISOBIT_KERNELS_CUDA_GATE_CUH_

// SiluGate and GeluGate of kernels/numerics/scalar.h, the same bits, at a fifth of their cost.
//
// The activation is rounded to bf16 before the multiplication, so all but a few of its bits are
// thrown away. The hardware's exp2 and reciprocal are good to about 2^-21. Unless that leaves it
// open to which side of the middle between two bf16 the value lies, the rounded result is the
// contract's; otherwise (one gate in about a thousand) the contract's own function is computed.
// There are only 65536 gates: tests compare all of them.

#include <cstdint>

#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/scalar.h"

namespace isobit::cuda {

// Both activations are x / (1 + exp2(Exponent(x))). The exponent is rounded as in the contract:
// that rounding error is not small.
struct SiluGateFunction {
  static __device__ float Exponent(float x) { return ieee::Mul(x, -kLog2E); }
  static __device__ float Exact(float x) { return Silu(x); }
};
struct GeluGateFunction {
  static __device__ float Exponent(float x) {
    const float cube = ieee::Mul(ieee::Mul(x, x), x);
    return ieee::Mul(kGeluScale, ieee::Fma(kGeluCube, cube, x));
  }
  static __device__ float Exact(float x) { return GeluTanh(x); }
};

// y[i] = Gate::Exact(x[i]), or a number that rounds to the same bf16.
template <typename Gate>
__device__ inline void ActivateForBf16(const float (&x)[4], float (&y)[4]) {
  // Distance from the middle between two bf16, in ulps of fp32; the error is 16 at most.
  constexpr uint32_t kMargin = 32;
  uint32_t unsure = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float power = sm90::ApproximateExp2(Gate::Exponent(x[i]));
    y[i] = ieee::Mul(x[i], sm90::ApproximateReciprocal(ieee::Add(1.0f, power)));
    const uint32_t from_margin = (FloatBits(y[i]) - (0x8000u - kMargin)) & 0xffffu;
    unsure |= static_cast<uint32_t>(from_margin <= 2 * kMargin) << i;
  }
  // Rare: one copy of the long way, for whichever needs it.
#pragma unroll 1
  for (int i = 0; unsure != 0; ++i, unsure >>= 1) {
    if ((unsure & 1) == 0) continue;
    const float exact = Gate::Exact(i == 0 ? x[0] : i == 1 ? x[1] : i == 2 ? x[2] : x[3]);
#pragma unroll
    for (int j = 0; j < 4; ++j) y[j] = i == j ? exact : y[j];
  }
}

// The gate for four neighbouring outputs. Each word of `pairs` holds gate (low half) and up; each
// word of the result two outputs.
template <typename Gate>
__device__ inline uint2 GateQuad(uint4 pairs) {
  const uint32_t words[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
  float gate[4], activated[4], product[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) gate[i] = BitsFloat(words[i] << 16);
  ActivateForBf16<Gate>(gate, activated);
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t rounded = sm90::RoundToBf16Pair(activated[i], activated[i + 1]);
    product[i] = ieee::Mul(BitsFloat(rounded << 16), BitsFloat(words[i] & 0xffff0000u));
    product[i + 1] =
        ieee::Mul(BitsFloat(rounded & 0xffff0000u), BitsFloat(words[i + 1] & 0xffff0000u));
  }
  return {sm90::RoundToBf16Pair(product[0], product[1]),
          sm90::RoundToBf16Pair(product[2], product[3])};
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GATE_CUH_
