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

// 2^x with relative error below 2^-22; subnormals kept.
__device__ inline float ApproximateExp2(float x) {
  float power;
  asm("ex2.approx.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 1 / x within 1 ulp; subnormals kept.
__device__ inline float ApproximateReciprocal(float x) {
  float reciprocal;
  asm("rcp.approx.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_CONVERT_H_
