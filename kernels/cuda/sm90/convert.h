#ifndef ISOBIT_KERNELS_CUDA_SM90_CONVERT_H_
#define ISOBIT_KERNELS_CUDA_SM90_CONVERT_H_

// Conversions and approximations of the hardware.

#include <cstdint>

namespace isobit::sm90 {

// RoundToBf16 of kernels/numerics/bf16.h (nearest even, NaN gives 0x7fff) of two numbers in one
// instruction. In memory order: `first` in the low half.
__device__ inline uint32_t RoundToBf16Pair(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

// Two products of bf16, each rounded once. That is RoundToBf16 of the fp32 product, whose 16 bits
// fp32 holds but for the smallest numbers, which both round alike.
__device__ inline uint32_t MulBf16Pair(uint32_t a, uint32_t b) {
  uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// 2^x with relative error below 2^-22; subnormals count as 0.
__device__ inline float ApproximateExp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 1 / x within 1 ulp; subnormals count as 0: so does 1 / x where x is above 2^126.
__device__ inline float ApproximateReciprocal(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_CONVERT_H_
