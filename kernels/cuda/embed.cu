#include "kernels/cuda/embed.h"

#include <cuda_runtime.h>

#include <cassert>

#include "kernels/cuda/bf16_chunk.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kChunkCols = Bf16Chunk::kElements;

__device__ Bf16Chunk Scaled(const Bf16Chunk& x, float scale) {
  Bf16Chunk y;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    y.pair[i] = sm90::RoundToBf16Pair(ieee::Mul(x.Element(2 * i), scale),
                                      ieee::Mul(x.Element(2 * i + 1), scale));
  }
  return y;
}

// One CTA a row; a thread gathers chunks of it from the packed panels.
__global__ void EmbedKernel(const __grid_constant__ Embed op, const uint8_t* packed,
                            const __grid_constant__ PackedLayout layout) {
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  const int64_t row = blockIdx.x;
  const int64_t token = ResolveTokenId(op.token_ids[row], op.sampled);
  Bf16* out = op.out + row * layout.cols;
  const auto chunks = static_cast<int>(layout.cols / kChunkCols);
  for (int chunk = static_cast<int>(threadIdx.x); chunk < chunks; chunk += kThreads) {
    Bf16Chunk x =
        LoadChunk(reinterpret_cast<const Bf16*>(packed + layout.ChunkOffset(token, chunk)));
    if (op.scale != 1.0f) x = Scaled(x, op.scale);
    StoreChunk(x, out + chunk * kChunkCols);
  }
}

}  // namespace

cudaError_t LaunchEmbed(const Embed& op, const PackedMatrix& table, cudaStream_t stream) {
  assert(table.layout.cols % kChunkCols == 0 && !table.layout.gate_up);
  if (op.rows == 0) return cudaSuccess;
  return Launch(EmbedKernel, {.grid = dim3(static_cast<unsigned>(op.rows)), .threads = kThreads},
                stream, op, static_cast<const uint8_t*>(table.data), table.layout);
}

}  // namespace isobit::cuda
