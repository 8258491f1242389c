#ifndef ISOBIT_KERNELS_CUDA_SM90_NAMED_BARRIER_H_
#define ISOBIT_KERNELS_CUDA_SM90_NAMED_BARRIER_H_

// Barriers of some of a CTA's warps, by number (1 to 15; 0 is __syncthreads). PTX ISA, "bar". They
// order the shared memory accesses of the threads that take part.

#include <cstdint>

namespace isobit::sm90 {

__device__ inline void SyncNamed(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Arrives without waiting; counts as one of the `threads` of those who sync.
__device__ inline void ArriveNamed(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// As SyncNamed; returns whether any thread gave true.
__device__ inline bool SyncNamedAny(int barrier, int threads, bool value) {
  uint32_t any;
  asm volatile(
      "{\n"
      ".reg .pred p, q;\n"
      "setp.ne.b32 p, %3, 0;\n"
      "bar.red.or.pred q, %1, %2, p;\n"
      "selp.u32 %0, 1, 0, q;\n"
      "}\n"
      : "=r"(any)
      : "r"(barrier), "r"(threads), "r"(static_cast<uint32_t>(value))
      : "memory");
  return any != 0;
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_NAMED_BARRIER_H_
