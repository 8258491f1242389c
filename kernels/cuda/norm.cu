#include "kernels/cuda/norm.h"

#include <cuda_runtime.h>

#include <cassert>

#include "kernels/cuda/bf16_chunk.cuh"
#include "kernels/cuda/fold_lanes.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/row_sum.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = kLaneThreads;

// One CTA a row. Each thread keeps kChunks chunks of the row in registers; with kChunks = 0 the row
// is too wide for that and read twice.
template <int kChunks>
__global__ void __launch_bounds__(kThreads) RmsNormKernel(const __grid_constant__ RmsNorm op) {
  sm90::LaunchDependentKernels();
  const auto row_chunks = static_cast<int>(op.width / Bf16Chunk::kElements);
  const int first = static_cast<int>(threadIdx.x);
  // Weights never change, so they need not wait.
  Bf16Chunk weight[kChunks > 0 ? kChunks : 1];
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int at = first + i * kThreads;
    if (at < row_chunks) weight[i] = LoadChunk(op.weight + at * Bf16Chunk::kElements);
  }
  sm90::WaitForPriorKernels();
  const int64_t row = blockIdx.x;
  const Bf16* x = op.x + (op.row_index != nullptr ? op.row_index[row] : row) * op.width;
  Bf16* out = op.out + row * op.width;

  float lane = 0.0f;
  if constexpr (kChunks > 0) {
    Bf16Chunk chunk[kChunks];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int at = first + i * kThreads;
      if (at < row_chunks) chunk[i] = LoadChunk(x + at * Bf16Chunk::kElements);
    }
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (first + i * kThreads < row_chunks) lane = AddSquares(chunk[i], lane);
    }
    const float scale = RmsScale(FoldLanes(lane), op.width, op.eps);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int at = first + i * kThreads;
      if (at >= row_chunks) break;
      StoreChunk(RmsNormChunk(chunk[i], scale, weight[i]), out + at * Bf16Chunk::kElements);
    }
  } else {
    for (int at = first; at < row_chunks; at += kThreads) {
      lane = AddSquares(LoadChunk(x + at * Bf16Chunk::kElements), lane);
    }
    const float scale = RmsScale(FoldLanes(lane), op.width, op.eps);
    for (int at = first; at < row_chunks; at += kThreads) {
      const int element = at * Bf16Chunk::kElements;
      StoreChunk(RmsNormChunk(LoadChunk(x + element), scale, LoadChunk(op.weight + element)),
                 out + element);
    }
  }
}

}  // namespace

cudaError_t LaunchRmsNorm(const RmsNorm& op, cudaStream_t stream) {
  assert(op.width % Bf16Chunk::kElements == 0);
  if (op.rows == 0) return cudaSuccess;
  constexpr int64_t kElementsPerChunk = int64_t{kThreads} * Bf16Chunk::kElements;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(op.rows)), .threads = kThreads};
  if (op.width <= 2 * kElementsPerChunk) return Launch(RmsNormKernel<2>, shape, stream, op);
  if (op.width <= 4 * kElementsPerChunk) return Launch(RmsNormKernel<4>, shape, stream, op);
  if (op.width <= 8 * kElementsPerChunk) return Launch(RmsNormKernel<8>, shape, stream, op);
  return Launch(RmsNormKernel<0>, shape, stream, op);
}

}  // namespace isobit::cuda
