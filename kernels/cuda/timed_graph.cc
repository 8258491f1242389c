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

absl::StatusOr<double> TimedGraph::Milliseconds(int graphs, cudaStream_t stream) const {
  Event begin, end;
  cudaError_t error = cudaEventCreate(&begin.event);
  if (error == cudaSuccess) error = cudaEventCreate(&end.event);
  if (error == cudaSuccess) error = cudaEventRecord(begin.event, stream);
  for (int i = 0; i < graphs && error == cudaSuccess; ++i) error = cudaGraphLaunch(exec_, stream);
  if (error == cudaSuccess) error = cudaEventRecord(end.event, stream);
  if (error == cudaSuccess) error = cudaEventSynchronize(end.event);
  float milliseconds = 0;
  if (error == cudaSuccess) {
    error = cudaEventElapsedTime(&milliseconds, begin.event, end.event);
  }
  if (error != cudaSuccess) return FromCuda(error, absl::StrCat("timing ", name_));
  return milliseconds;
}

absl::Status TimeInTurns(std::span<const std::unique_ptr<TimedGraph>> graphs, int rounds,
                         double turn_milliseconds, cudaStream_t stream) {
  for (const auto& graph : graphs) graph->microseconds_.clear();
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < graphs.size(); ++i) {
      TimedGraph& graph = *graphs[(i + static_cast<size_t>(round)) % graphs.size()];
      int launches = 1;
      if (turn_milliseconds > 0) {
        const auto once = graph.Milliseconds(1, stream);
        if (!once.ok()) return once.status();
        launches = std::max(1, static_cast<int>(turn_milliseconds / 2 / *once));
        const auto settling = graph.Milliseconds(launches, stream);
        if (!settling.ok()) return settling.status();
      }
      const auto milliseconds = graph.Milliseconds(launches, stream);
      if (!milliseconds.ok()) return milliseconds.status();
      graph.microseconds_.push_back(1000 * *milliseconds / launches / graph.calls_);
    }
  }
  return absl::OkStatus();
}

}  // namespace isobit::cuda
