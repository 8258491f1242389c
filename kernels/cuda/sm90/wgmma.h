#ifndef ISOBIT_KERNELS_CUDA_SM90_WGMMA_H_
#define ISOBIT_KERNELS_CUDA_SM90_WGMMA_H_

// wgmma: one warpgroup, D[64][N] = D + A[64][16] B[N][16]^T, both operands bf16 in shared memory
// with k contiguous, D in fp32 registers. Each element is one Dot16 step (contract 1).
//
// Operands lie in boxes of 64 k: rows of 128 bytes, the 16-byte chunk c of row r at chunk c ^ (r
// mod 8), eight rows a group of 1024 bytes (aligned to 1024), groups below each other. That is what
// a tensor map with 128-byte swizzle writes.
//
// Accumulators (PTX ISA, "Register fragments and shared memory matrix layouts", wgmma D): with warp
// w = 0..3 of the group, g = lane / 4 and q = lane % 4,
//   d[4j], d[4j+1] = D[16w + g][8j + 2q, 8j + 2q + 1],  d[4j+2], d[4j+3] = the same of row + 8.

#include <cstdint>

#include "kernels/cuda/sm90/wgmma_shapes.h"

namespace isobit::sm90 {

// The descriptor of an operand that begins at this shared address. Its low word counts in units of
// 16 bytes, so adding n to the descriptor moves the operand by 16 n bytes: one k16 step inside a
// box is +2, one box of r rows is + 8 r.
__device__ inline uint64_t WgmmaDescriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kGroupStride = uint64_t{1024 / 16} << 32;
  constexpr uint64_t kUnusedLeadingStride = uint64_t{1} << 16;
  return kSwizzle128 | kGroupStride | kUnusedLeadingStride | ((address & 0x3ffff) >> 4);
}

inline constexpr uint64_t kDescriptorStepK16 = 2;

// Before the first wgmma that uses registers or shared memory that other instructions have written.
__device__ inline void WgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes the group of all wgmmas issued since the last one.
__device__ inline void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Tells the compiler that wgmma may still write these registers: no use moves across it.
template <int kCount>
__device__ inline void FenceAccumulators(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Waits until at most kPending of the youngest groups are still running.
template <int kPending>
__device__ inline void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_WGMMA_H_
