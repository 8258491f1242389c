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
  // Of one launch, over the rounds of the last TimeInTurns. REQUIRES: at least one.
  double MedianMicroseconds() const;

 private:
  friend absl::Status TimeInTurns(std::span<const std::unique_ptr<TimedGraph>> graphs, int rounds,
                                  double turn_milliseconds, cudaStream_t stream);
  // Of one run of `graphs` launches of the graph.
  absl::StatusOr<double> Milliseconds(int graphs, cudaStream_t stream) const;
  TimedGraph(std::string name, int calls) : name_(std::move(name)), calls_(calls) {}

  const std::string name_;
  const int calls_;
  cudaGraphExec_t exec_ = nullptr;
  std::vector<double> microseconds_;
};

// How long a turn is. A card at its power limit takes some tens of milliseconds to settle to the
// clock that a kernel lets it hold; until then a kernel's time depends on those before it, by up to
// 6% on an H200. One run shows what a kernel does in between others, a settled turn what it does on
// and on.
inline constexpr double kOneRun = 0;
inline constexpr double kSettledTurnMs = 120;

// Every graph runs for about so long a round, once at least, and the second half counts. Each round
// begins with another graph. Waits for the device.
absl::Status TimeInTurns(std::span<const std::unique_ptr<TimedGraph>> graphs, int rounds,
                         double turn_milliseconds, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_TIMED_GRAPH_H_
