#ifndef ISOBIT_KERNELS_CUDA_MOMENT_H_
#define ISOBIT_KERNELS_CUDA_MOMENT_H_

// A moment in a stream, noted by the GPU's own clock.

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

namespace isobit::cuda {

class CudaMoment final : public Moment {
 public:
  ~CudaMoment() override {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  // `is_recording`: the stream is captured, and the event is to be seen from outside of the graph.
  cudaError_t Note(cudaStream_t stream, bool is_recording) {
    const cudaError_t error = cudaEventCreate(&event_);
    if (error != cudaSuccess) return error;
    return cudaEventRecordWithFlags(
        event_, stream, is_recording ? cudaEventRecordExternal : cudaEventRecordDefault);
  }

  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_MOMENT_H_
