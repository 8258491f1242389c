#ifndef ISOBIT_KERNELS_CUDA_SM90_OPAQUE_H_
#define ISOBIT_KERNELS_CUDA_SM90_OPAQUE_H_

#include <cstdint>

namespace isobit::sm90 {

// The same number, of which the compiler knows nothing: what is derived from it is computed where
// it is used, and not kept in registers over a loop.
__device__ inline uint32_t Opaque(uint32_t value) {
  asm volatile("mov.u32 %0, %0;" : "+r"(value));
  return value;
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_OPAQUE_H_
