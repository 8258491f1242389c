#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/packed_weight.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChunkCols = 8;  // 16 bytes

// One thread a chunk. Rows need not be aligned, so elements are read one by one.
__global__ void PackRowsKernel(const Bf16* from, int64_t first, int64_t chunks, int64_t row_chunks,
                               PackedLayout layout, uint8_t* packed) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= chunks) return;
  const int64_t row = index / row_chunks;
  const int64_t chunk = index % row_chunks;
  const int64_t col = chunk * kChunkCols;
  const Bf16* elements = from + row * layout.cols + col;
  alignas(16) Bf16 values[kChunkCols] = {};
#pragma unroll
  for (int i = 0; i < kChunkCols; ++i) {
    if (col + i < layout.cols) values[i] = elements[i];
  }
  *reinterpret_cast<uint4*>(packed + layout.ChunkOffset(first + row, chunk)) =
      *reinterpret_cast<const uint4*>(values);
}

}  // namespace

cudaError_t LaunchPackRows(const Bf16* from, int64_t first, int64_t count,
                           const PackedLayout& layout, void* packed, cudaStream_t stream) {
  const int64_t row_chunks = (layout.cols + kChunkCols - 1) / kChunkCols;
  // A launch takes at most 2^31 - 1 blocks.
  const int64_t rows_per_launch =
      std::max<int64_t>(1, (int64_t{1} << 30) / row_chunks * kThreads / 2);
  for (int64_t begin = 0; begin < count; begin += rows_per_launch) {
    const int64_t chunks = std::min(rows_per_launch, count - begin) * row_chunks;
    PackRowsKernel<<<static_cast<unsigned>((chunks + kThreads - 1) / kThreads), kThreads, 0,
                     stream>>>(from + begin * layout.cols, first + begin, chunks, row_chunks,
                               layout, static_cast<uint8_t*>(packed));
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace isobit::cuda
