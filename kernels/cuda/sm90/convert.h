#ifndef ISOBIT_KERNELS_CUDA_SM90_CONVERT_H_
#define ISOBIT_KERNELS_CUDA_SM90_CONVERT_H_

// Rounding to bf16 in one instruction: the same function as RoundToBf16 of kernels/numerics/bf16.h
// (nearest even, NaN gives 0x7fff), two at a time.

#include <cstdint>

namespace isobit::sm90 {

// Two bf16 in memory order: `first` in the low half.
__device__ inline uint32_t RoundToBf16Pair(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_CONVERT_H_
