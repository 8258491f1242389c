// RMSNorm that rounds once, and of the runs of a row (contract 3).

#include "kernels/cuda/wide_norm.h"

#include <cuda_runtime.h>

#include <cassert>

#include "kernels/cuda/bf16_chunk.cuh"
#include "kernels/cuda/fold_lanes.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/row_sum.h"

namespace isobit::cuda {
namespace {

constexpr int kWarpElements = 32 * Bf16Chunk::kElements;

struct WideNormParams {
  RmsNorm op;
  int64_t runs;    // rows * groups
  int64_t stride;  // as in RmsNorm, never 0
};

// One run of a row: a team of threads normalises it.
struct Run {
  const Bf16* x;
  Bf16* out;
  const Bf16* residual;  // nullable

  __device__ Run(const WideNormParams& p, int64_t index) {
    const RmsNorm& op = p.op;
    const int64_t row = index / op.groups, group = index % op.groups;
    const int64_t from = op.row_index != nullptr ? op.row_index[row] : row;
    x = op.x + from * p.stride + group * op.width;
    out = op.out + row * p.stride + group * op.width;
    residual = op.residual != nullptr ? op.residual + row * p.stride : nullptr;
  }
};

// WideNormElement of all elements of the chunk at `at`, with the residual if there is one.
__device__ Bf16Chunk WideNormChunk(const Bf16Chunk& x, float scale, const float* weight,
                                   const Bf16* residual) {
  float y[Bf16Chunk::kElements];
#pragma unroll
  for (int i = 0; i < Bf16Chunk::kElements; i += 4) {
    const float4 w = *reinterpret_cast<const float4*>(weight + i);
    const float weights[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      y[i + j] = ieee::Mul(ieee::Mul(x.Element(i + j), scale), weights[j]);
    }
  }
  if (residual != nullptr) {
    const Bf16Chunk r = LoadChunk(residual);
#pragma unroll
    for (int i = 0; i < Bf16Chunk::kElements; ++i) y[i] = ieee::Add(y[i], r.Element(i));
  }
  Bf16Chunk rounded;
#pragma unroll
  for (int i = 0; i < 4; ++i) rounded.pair[i] = sm90::RoundToBf16Pair(y[2 * i], y[2 * i + 1]);
  return rounded;
}

__device__ void StoreNormed(const RmsNorm& op, const Run& run, const Bf16Chunk& x, float scale,
                            int at) {
  const Bf16Chunk y = op.wide_weight != nullptr
                          ? WideNormChunk(x, scale, op.wide_weight + at,
                                          run.residual != nullptr ? run.residual + at : nullptr)
                          : RmsNormChunk(x, scale, LoadChunk(op.weight + at));
  StoreChunk(y, run.out + at);
}

// A warp a run of at most kWarpElements: heads.
__global__ void __launch_bounds__(kLaneThreads)
    NarrowRunsKernel(const __grid_constant__ WideNormParams p) {
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t index = int64_t{blockIdx.x} * (kLaneThreads / 32) + warp;
  if (index >= p.runs) return;
  const Run run(p, index);
  const int at = static_cast<int>(threadIdx.x) % 32 * Bf16Chunk::kElements;
  const bool has_chunk = at < p.op.width;
  Bf16Chunk x = {};
  if (has_chunk) x = LoadChunk(run.x + at);
  const float scale = RmsScale(FoldWarp(AddSquares(x, 0.0f)), p.op.width, p.op.eps);
  if (has_chunk) StoreNormed(p.op, run, x, scale, at);
}

// A CTA a run, which is read twice: the second time it comes from the cache.
__global__ void __launch_bounds__(kLaneThreads)
    WideRunsKernel(const __grid_constant__ WideNormParams p) {
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  const Run run(p, blockIdx.x);
  constexpr int kStep = kLaneThreads * Bf16Chunk::kElements;
  const int first = static_cast<int>(threadIdx.x) * Bf16Chunk::kElements;
  float lane = 0.0f;
  for (int at = first; at < p.op.width; at += kStep) lane = AddSquares(LoadChunk(run.x + at), lane);
  const float scale = RmsScale(FoldLanes(lane), p.op.width, p.op.eps);
  for (int at = first; at < p.op.width; at += kStep) {
    StoreNormed(p.op, run, LoadChunk(run.x + at), scale, at);
  }
}

}  // namespace

bool IsWideNorm(const RmsNorm& op) {
  return op.wide_weight != nullptr || op.groups != 1 || (op.stride != 0 && op.stride != op.width);
}

cudaError_t LaunchWideNorm(const RmsNorm& op, cudaStream_t stream) {
  assert(op.width % Bf16Chunk::kElements == 0 && op.stride % Bf16Chunk::kElements == 0);
  assert(op.residual == nullptr || (op.wide_weight != nullptr && op.groups == 1));
  const WideNormParams p = {op, op.rows * op.groups,
                            op.stride != 0 ? op.stride : op.groups * op.width};
  if (p.runs == 0) return cudaSuccess;
  if (op.width > kWarpElements) {
    return Launch(WideRunsKernel,
                  {.grid = dim3(static_cast<unsigned>(p.runs)), .threads = kLaneThreads}, stream,
                  p);
  }
  constexpr int64_t kWarps = kLaneThreads / 32;
  const auto ctas = static_cast<unsigned>((p.runs + kWarps - 1) / kWarps);
  return Launch(NarrowRunsKernel, {.grid = dim3(ctas), .threads = kLaneThreads}, stream, p);
}

}  // namespace isobit::cuda
