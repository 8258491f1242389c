#include "kernels/cuda/timed_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"

namespace isobit::cuda {
namespace {

struct Event {
  ~Event() {
    if (event != nullptr) cudaEventDestroy(event);
  }
  cudaEvent_t event = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TimedGraph>> TimedGraph::Capture(
    std::string name, int calls, const std::function<cudaError_t(int, cudaStream_t)>& launch,
    cudaStream_t stream) {
  std::unique_ptr<TimedGraph> timed(new TimedGraph(std::move(name), calls));
  cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return FromCuda(error, "beginning to capture a graph");
  cudaError_t launch_error = cudaSuccess;
  for (int i = 0; i < calls && launch_error == cudaSuccess; ++i) launch_error = launch(i, stream);
  cudaGraph_t graph = nullptr;
  error = cudaStreamEndCapture(stream, &graph);
  if (launch_error != cudaSuccess) error = launch_error;
  if (error == cudaSuccess) error = cudaGraphInstantiate(&timed->exec_, graph, 0);
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (error != cudaSuccess) return FromCuda(error, absl::StrCat("capturing ", timed->name_));
  return timed;
}

TimedGraph::~TimedGraph() {
  if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
}

double TimedGraph::MedianMicroseconds() const {
  std::vector<double> sorted = microseconds_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

absl::Status TimeInTurns(std::span<const std::unique_ptr<TimedGraph>> graphs, int rounds,
                         cudaStream_t stream) {
  Event begin, end;
  cudaError_t error = cudaEventCreate(&begin.event);
  if (error == cudaSuccess) error = cudaEventCreate(&end.event);
  if (error != cudaSuccess) return FromCuda(error, "creating an event");
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < graphs.size(); ++i) {
      TimedGraph& graph = *graphs[(i + static_cast<size_t>(round)) % graphs.size()];
      cudaEventRecord(begin.event, stream);
      cudaGraphLaunch(graph.exec_, stream);
      cudaEventRecord(end.event, stream);
      float milliseconds = 0;
      error = cudaEventSynchronize(end.event);
      if (error == cudaSuccess) {
        error = cudaEventElapsedTime(&milliseconds, begin.event, end.event);
      }
      if (error != cudaSuccess) return FromCuda(error, absl::StrCat("timing ", graph.name_));
      graph.microseconds_.push_back(1000.0 * milliseconds / graph.calls_);
    }
  }
  return absl::OkStatus();
}

}  // namespace isobit::cuda
