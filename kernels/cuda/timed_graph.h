#ifndef ISOBIT_KERNELS_CUDA_TIMED_GRAPH_H_
#define ISOBIT_KERNELS_CUDA_TIMED_GRAPH_H_

// Timing of kernels on the device: several launches in a CUDA graph, between two events, so that
// neither the host nor the gaps between launches count. Candidates take turns (TimeInTurns), so
// that a card that slows down slows all of them.

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace isobit::cuda {

class TimedGraph {
 public:
  // Captures launch(0) .. launch(calls - 1), which put work into `stream` and give back the error.
  static absl::StatusOr<std::unique_ptr<TimedGraph>> Capture(
      std::string name, int calls, const std::function<cudaError_t(int, cudaStream_t)>& launch,
      cudaStream_t stream);
  ~TimedGraph();
  TimedGraph(const TimedGraph&) = delete;
  TimedGraph& operator=(const TimedGraph&) = delete;

  const std::string& name() const { return name_; }
  // Of one launch, over all runs so far. REQUIRES: at least one run.
  double MedianMicroseconds() const;

 private:
  friend absl::Status TimeInTurns(std::span<const std::unique_ptr<TimedGraph>> graphs, int rounds,
                                  cudaStream_t stream);
  TimedGraph(std::string name, int calls) : name_(std::move(name)), calls_(calls) {}

  const std::string name_;
  const int calls_;
  cudaGraphExec_t exec_ = nullptr;
  std::vector<double> microseconds_;
};

// Runs every graph once a round; each round begins with another one. Waits for the device.
absl::Status TimeInTurns(std::span<const std::unique_ptr<TimedGraph>> graphs, int rounds,
                         cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_TIMED_GRAPH_H_
