#include "kernels/cuda/embed.h"

#include <cuda_runtime.h>

#include <cassert>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kChunkCols = 8;  // 16 bytes

// One CTA a row; a thread gathers chunks of it from the packed panels.
__global__ void EmbedKernel(const __grid_constant__ Embed op, const uint8_t* packed,
                            const __grid_constant__ PackedLayout layout) {
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  const int64_t row = blockIdx.x;
  const int64_t token = op.token_ids[row];
  auto* out = reinterpret_cast<uint4*>(op.out + row * layout.cols);
  const auto chunks = static_cast<int>(layout.cols / kChunkCols);
  for (int chunk = static_cast<int>(threadIdx.x); chunk < chunks; chunk += kThreads) {
    out[chunk] = *reinterpret_cast<const uint4*>(packed + layout.ChunkOffset(token, chunk));
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
