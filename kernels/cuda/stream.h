#ifndef ISOBIT_KERNELS_CUDA_STREAM_H_
#define ISOBIT_KERNELS_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_status.h"

namespace isobit::cuda {

// A stream of the current device, of its owner's own.
class Stream {
 public:
  static absl::StatusOr<Stream> Create() {
    Stream stream;
    const cudaError_t error = cudaStreamCreate(&stream.stream_);
    if (error != cudaSuccess) return FromCuda(error, "creating a CUDA stream");
    return stream;
  }
  Stream() = default;
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_STREAM_H_
