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

// Whether y, which is off by some ulps of fp32, may lie on the other side of the middle between two
// bf16. The error is 16 ulps at most.
__device__ inline bool IsNearMiddle(float y) {
  constexpr uint32_t kMargin = 24;
  return ((FloatBits(y) - (0x8000u - kMargin)) & 0xffffu) <= 2 * kMargin;
}

// Rare, and too long to stand in every place.
template <typename Gate>
__device__ __noinline__ float4 ExactWhereUnsure(float4 x, float4 y) {
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    // One element after the other through the same registers. What counts as 0 is exact if it is.
    const bool is_unsure = IsNearMiddle(y.x) || y.x == 0.0f;
    y = {y.y, y.z, y.w, is_unsure ? Gate::Exact(x.x) : y.x};
    x = {x.y, x.z, x.w, x.x};
  }
  return y;
}

// y[i] = Gate::Exact(x[i]) where Activate could not tell.
template <typename Gate>
__device__ inline void ActivateExactly(const float (&x)[4], float (&y)[4]) {
  const float4 exact =
      ExactWhereUnsure<Gate>(float4{x[0], x[1], x[2], x[3]}, float4{y[0], y[1], y[2], y[3]});
  y[0] = exact.x;
  y[1] = exact.y;
  y[2] = exact.z;
  y[3] = exact.w;
}

// y[i] = Gate::Exact(x[i]), or a number that rounds to the same bf16; but if it returns true, that
// may not be so.
template <typename Gate>
__device__ inline bool Activate(const float (&x)[4], float (&y)[4]) {
  // Reciprocals of larger numbers count as 0.
  constexpr float kLargest = 0x1p125f;
  bool is_unsure = false;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float sum = ieee::Add(1.0f, sm90::ApproximateExp2(Gate::Exponent(x[i])));
    y[i] = ieee::Mul(x[i], sm90::ApproximateReciprocal(sum));
    is_unsure |= sum > kLargest;
    is_unsure |= IsNearMiddle(y[i]);
  }
  return is_unsure;
}

// The gates for some times four neighbouring outputs. Each word of `pairs` holds gate (low half)
// and up; each word of `outputs` two outputs. They are made side by side, as each is a long chain.
template <typename Gate, int kQuads>
__device__ inline void GateQuads(const uint4 (&pairs)[kQuads], uint2 (&outputs)[kQuads]) {
  float x[kQuads][4], y[kQuads][4];
  bool is_unsure[kQuads];
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const uint32_t words[4] = {pairs[q].x, pairs[q].y, pairs[q].z, pairs[q].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) x[q][i] = BitsFloat(words[i] << 16);
    is_unsure[q] = Activate<Gate>(x[q], y[q]);
  }
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    if (is_unsure[q]) ActivateExactly<Gate>(x[q], y[q]);
    const uint32_t first_ups = __byte_perm(pairs[q].x, pairs[q].y, 0x7632);
    const uint32_t second_ups = __byte_perm(pairs[q].z, pairs[q].w, 0x7632);
    outputs[q] = {sm90::MulBf16Pair(sm90::RoundToBf16Pair(y[q][0], y[q][1]), first_ups),
                  sm90::MulBf16Pair(sm90::RoundToBf16Pair(y[q][2], y[q][3]), second_ups)};
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GATE_CUH_
