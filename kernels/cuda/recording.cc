#include "kernels/cuda/recording.h"

#include "kernels/cuda/cuda_status.h"

namespace isobit::cuda {

absl::StatusOr<std::unique_ptr<CudaRecording>> CudaRecording::Capture(
    cudaStream_t stream, const std::function<void()>& issue) {
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return FromCuda(error, "recording a step");
  issue();
  cudaGraph_t captured = nullptr;
  error = cudaStreamEndCapture(stream, &captured);
  if (error != cudaSuccess) return FromCuda(error, "recording a step");
  cudaGraphExec_t graph = nullptr;
  error = cudaGraphInstantiate(&graph, captured, 0);
  cudaGraphDestroy(captured);
  if (error != cudaSuccess) return FromCuda(error, "preparing a recorded step");
  return std::unique_ptr<CudaRecording>(new CudaRecording(graph));
}

CudaRecording::~CudaRecording() { cudaGraphExecDestroy(graph_); }

}  // namespace isobit::cuda
