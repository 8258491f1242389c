#include "kernels/profiling_backend.h"

#include <algorithm>
#include <utility>

namespace isobit {

struct ProfilingBackend::TimedRecording : Recording {
  // Shared: a recording that is dropped may still wait for its Synchronize().
  std::shared_ptr<const std::vector<Timed>> operations;
  std::unique_ptr<Recording> recording;
};

template <typename Op>
void ProfilingBackend::Time(const Op& op) {
  std::unique_ptr<Moment> begin = inner().Mark();
  inner().Run(op);
  pending_.push_back({.cost = [cost = CostOf(op)](int64_t) { return cost; },
                      .begin = std::move(begin),
                      .end = inner().Mark()});
}

void ProfilingBackend::Run(const Attention& op) {
  std::unique_ptr<Moment> begin = inner().Mark();
  inner().Run(op);
  // Of the batch, only what is known before the step is kept; a replay may have other positions.
  const RowBatch batch = {.rows = op.batch->rows, .sequences = op.batch->sequences};
  pending_.push_back({.cost =
                          [op, batch](int64_t first_position) {
                            Attention of = op;
                            of.batch = &batch;
                            return CostOf(of, first_position);
                          },
                      .begin = std::move(begin),
                      .end = inner().Mark()});
}

std::unique_ptr<Recording> ProfilingBackend::Record(const std::function<void()>& issue) {
  auto timed = std::make_unique<TimedRecording>();
  std::vector<Timed> issued_before = std::exchange(pending_, {});
  timed->recording = inner().Record(issue);
  timed->operations =
      std::make_shared<const std::vector<Timed>>(std::exchange(pending_, std::move(issued_before)));
  if (timed->recording == nullptr) return nullptr;
  return timed;
}

bool ProfilingBackend::Replay(const Recording& recording) {
  const auto& timed = static_cast<const TimedRecording&>(recording);
  // Its moments will be written again: read them first. An error is kept for the caller's own call.
  if (replayed_ != nullptr) (void)Synchronize();
  if (!inner().Replay(*timed.recording)) return false;
  replayed_ = timed.operations;
  return true;
}

absl::Status ProfilingBackend::Synchronize() {
  const absl::Status status = inner().Synchronize();
  if (status.ok()) {
    if (replayed_ != nullptr) {
      for (const Timed& timed : *replayed_) Add(timed);
    }
    for (const Timed& timed : pending_) Add(timed);
  }
  replayed_ = nullptr;
  pending_.clear();
  return status;
}

void ProfilingBackend::Add(const Timed& timed) {
  const OperationCost cost = timed.cost(first_position_);
  auto it = std::ranges::find(profiles_, cost.name, &OperationProfile::name);
  if (it == profiles_.end()) it = profiles_.insert(it, {.name = cost.name});
  ++it->calls;
  it->seconds += inner().SecondsBetween(*timed.begin, *timed.end);
  it->bytes += cost.bytes;
  it->flops += cost.flops;
}

std::vector<OperationProfile> ProfilingBackend::Take() { return std::exchange(profiles_, {}); }

}  // namespace isobit
