#ifndef ISOBIT_KERNELS_CUDA_FOLD_LANES_CUH_
#define ISOBIT_KERNELS_CUDA_FOLD_LANES_CUH_

// The virtual lanes of contract 3, one a thread, folded into a row's sum.

#include "kernels/cuda/bf16_chunk.cuh"
#include "kernels/numerics/row_sum.h"

namespace isobit::cuda {

// One thread plays one lane; a lane's runs of 8 elements are chunks.
inline constexpr int kLaneThreads = RowSum::kLanes;
static_assert(RowSum::kRun == Bf16Chunk::kElements);

// RowSum::Total for lanes held by the threads of a CTA. Returned to all threads.
__device__ inline float FoldLanes(float lane) {
  __shared__ float upper[kLaneThreads / 2 + kLaneThreads / 4];
  __shared__ float total;
  const int thread = static_cast<int>(threadIdx.x);
  float* of_half = upper;
  for (int width = kLaneThreads / 2; width >= 32; width /= 2) {
    if (thread >= width && thread < 2 * width) of_half[thread - width] = lane;
    __syncthreads();
    if (thread < width) lane = ieee::Add(lane, of_half[thread]);
    of_half += width;
  }
  if (thread < 32) {
#pragma unroll
    for (int width = 16; width >= 1; width /= 2) {
      lane = ieee::Add(lane, __shfl_down_sync(0xffffffffu, lane, width));
    }
    if (thread == 0) total = lane;
  }
  __syncthreads();
  return total;
}

// The same where only the first 32 lanes have elements, held by a warp: the others are +0, and
// adding +0 changes no sum of squares. Returned to all threads of the warp.
__device__ inline float FoldWarp(float lane) {
#pragma unroll
  for (int width = 16; width >= 1; width /= 2) {
    lane = ieee::Add(lane, __shfl_down_sync(0xffffffffu, lane, width));
  }
  return __shfl_sync(0xffffffffu, lane, 0);
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_FOLD_LANES_CUH_
