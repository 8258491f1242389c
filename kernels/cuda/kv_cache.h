#ifndef ISOBIT_KERNELS_CUDA_KV_CACHE_H_
#define ISOBIT_KERNELS_CUDA_KV_CACHE_H_

// Keys and values in device memory (kv_layout.h).

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/cuda/kv_layout.h"
#include "kernels/ops.h"

namespace isobit::cuda {

class CudaKvCache final : public KvCache {
 public:
  // InvalidArgument if the shape is not valid or its head size is not supported; ResourceExhausted,
  // with bytes asked for and free, if it does not fit.
  static absl::StatusOr<std::unique_ptr<CudaKvCache>> Create(const KvCacheShape& shape);
  ~CudaKvCache() override;

  const KvLayout& layout() const { return layout_; }
  uint8_t* Layer(int layer) const { return data_ + layer * layout_.LayerBytes(); }

  // Queues filling of whole pages, all layers.
  cudaError_t Fill(std::span<const int32_t> pages, Bf16 value, cudaStream_t stream);

 private:
  CudaKvCache(const KvCacheShape& shape, uint8_t* data)
      : KvCache(shape), layout_(shape), data_(data) {}

  KvLayout layout_;
  uint8_t* data_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_KV_CACHE_H_
