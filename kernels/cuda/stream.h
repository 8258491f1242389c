#ifndef ISOBIT_KERNELS_CUDA_STREAM_H_
#define ISOBIT_KERNELS_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_status.h"

namespace isobit::cuda {

// A stream of the current device, of its owner's own.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // Once, before get().
  absl::Status Open() { return FromCuda(cudaStreamCreate(&stream_), "creating a CUDA stream"); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_STREAM_H_
