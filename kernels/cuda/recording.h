#ifndef ISOBIT_KERNELS_CUDA_RECORDING_H_
#define ISOBIT_KERNELS_CUDA_RECORDING_H_

// Launches captured from a stream as a CUDA graph: one launch replays them all.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit::cuda {

class CudaRecording final : public Recording {
 public:
  // Captures what `issue` launches in the stream, which runs none of it.
  static absl::StatusOr<std::unique_ptr<CudaRecording>> Capture(cudaStream_t stream,
                                                                const std::function<void()>& issue);
  ~CudaRecording() override;

  cudaError_t Launch(cudaStream_t stream) const { return cudaGraphLaunch(graph_, stream); }

  // What the backend keeps with it.
  uint64_t gemm_tiles = 0;         // counted at each replay
  uint64_t memory_generation = 0;  // of attention's scratch memory that the launches point to

 private:
  explicit CudaRecording(cudaGraphExec_t graph) : graph_(graph) {}

  cudaGraphExec_t graph_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_RECORDING_H_
