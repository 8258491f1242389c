#ifndef ISOBIT_KERNELS_PROFILING_BACKEND_H_
#define ISOBIT_KERNELS_PROFILING_BACKEND_H_

// A backend that hands everything on to another one, and times each operation on its device: also
// those of recordings, in place. No bit depends on it. An operation no longer overlaps the next, so
// a step takes a little longer than without it.
//
// As thread-safe as a backend: one thread at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/forwarding_backend.h"
#include "kernels/operation_cost.h"
#include "kernels/ops.h"

namespace isobit {

// All operations of one name.
struct OperationProfile {
  std::string name;
  int64_t calls = 0;
  double seconds = 0, bytes = 0, flops = 0;  // of all calls together
};

class ProfilingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  // Where the sequences of the attention that follows begin (CostOf).
  void set_first_position(int64_t position) { first_position_ = position; }

  // What was timed up to the last Synchronize(), and forgets it. In order of first appearance.
  std::vector<OperationProfile> Take();

  void Run(const Embed& op) override { Time(op); }
  void Run(const RmsNorm& op) override { Time(op); }
  void Run(const Gemm& op) override { Time(op); }
  void Run(const RopeKvWrite& op) override { Time(op); }
  void Run(const QkvProjection& op) override { Time(op); }
  void Run(const Attention& op) override;
  void Run(const ScoreTokens& op) override { Time(op); }
  void Run(const SampleTokens& op) override { Time(op); }

  std::unique_ptr<Recording> Record(const std::function<void()>& issue) override;
  bool Replay(const Recording& recording) override;
  absl::Status Synchronize() override;
  absl::Status Wait(Fence /*fence*/) override { return Synchronize(); }

 private:
  struct Timed {
    std::function<OperationCost(int64_t first_position)> cost;
    std::unique_ptr<Moment> begin, end;
  };
  struct TimedRecording;

  template <typename Op>
  void Time(const Op& op);
  void Add(const Timed& timed);

  int64_t first_position_ = 0;
  // Since the last Synchronize():
  std::vector<Timed> pending_;                          // issued one by one
  std::shared_ptr<const std::vector<Timed>> replayed_;  // null: no recording
  std::vector<OperationProfile> profiles_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_PROFILING_BACKEND_H_
