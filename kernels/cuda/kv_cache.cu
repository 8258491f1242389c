#include "kernels/cuda/kv_cache.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/shapes.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPagesPerLaunch = 256;

// Passed by value, so that the caller's list need not stay alive.
struct PageList {
  int32_t page[kPagesPerLaunch];
};

// grid.x: a page; grid.y: a layer.
__global__ void FillPagesKernel(uint8_t* data, KvLayout layout,
                                const __grid_constant__ PageList list, uint32_t pair) {
  sm90::WaitForPriorKernels();
  uint8_t* page =
      data + blockIdx.y * layout.LayerBytes() + list.page[blockIdx.x] * layout.PageBytes();
  const auto chunks = static_cast<int>(layout.PageBytes() / 16);
  for (int i = static_cast<int>(threadIdx.x); i < chunks; i += kThreads) {
    reinterpret_cast<uint4*>(page)[i] = uint4{pair, pair, pair, pair};
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaKvCache>> CudaKvCache::Create(const KvCacheShape& shape) {
  const absl::StatusOr<int64_t> bytes = CheckKvCacheShape(shape);
  if (!bytes.ok()) return bytes.status();
  if (!IsSupportedHeadDim(shape.head_dim)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no CUDA kernel for attention heads of ", shape.head_dim));
  }
  if (shape.page_tokens > kMaxPageTokens) {
    return absl::InvalidArgumentError(absl::StrCat("KV pages of the CUDA backend hold at most ",
                                                   kMaxPageTokens, " tokens, not ",
                                                   shape.page_tokens));
  }
  absl::StatusOr<uint8_t*> data = AllocateDevice(static_cast<size_t>(*bytes), "the KV cache");
  if (!data.ok()) return data.status();
  return std::unique_ptr<CudaKvCache>(new CudaKvCache(shape, *data));
}

CudaKvCache::~CudaKvCache() { cudaFree(data_); }

cudaError_t CudaKvCache::Fill(std::span<const int32_t> pages, Bf16 value, cudaStream_t stream) {
  const uint32_t pair = value.bits * 0x10001u;
  for (size_t begin = 0; begin < pages.size(); begin += kPagesPerLaunch) {
    const size_t count = std::min<size_t>(pages.size() - begin, kPagesPerLaunch);
    PageList list;
    std::copy_n(pages.begin() + static_cast<ptrdiff_t>(begin), count, list.page);
    const dim3 grid(static_cast<unsigned>(count), static_cast<unsigned>(shape().layers));
    const cudaError_t error = Launch(FillPagesKernel, {.grid = grid, .threads = kThreads}, stream,
                                     data_, layout_, list, pair);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace isobit::cuda
