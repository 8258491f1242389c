#include "invariance/schedule.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

class Run {
 public:
  Run(EngineCore& engine, std::vector<ScheduledRequest> requests, const ScheduleOptions& options)
      : engine_(engine),
        requests_(std::move(requests)),
        options_(options),
        outcomes_(requests_.size()),
        state_(requests_.size(), State::kToCome) {}

  absl::StatusOr<std::vector<Outcome>> Finish() {
    for (int64_t step = 0; ToCome() || engine_.HasWork(); ++step) {
      Arrive(step);
      Cancel(step);
      if (!engine_.HasWork()) continue;
      if (options_.poison_free_pages) engine_.FillBlankPages(kCanonicalNanBf16);
      if (absl::Status s = engine_.Step(); !s.ok()) return s;
      if (options_.after_step) options_.after_step(step);
      if (!options_.check_integrity) continue;
      if (absl::Status s = engine_.CheckIntegrity(); !s.ok()) {
        engine_.FailAll(s);  // nobody may call back into this run later
        return absl::Status(s.code(), absl::StrCat("after step ", step, ": ", s.message()));
      }
    }
    return std::move(outcomes_);
  }

 private:
  enum class State { kToCome, kRunning, kEnded };

  bool ToCome() const { return std::ranges::find(state_, State::kToCome) != state_.end(); }

  void Arrive(int64_t step) {
    int64_t due = step;
    if (!engine_.HasWork()) {
      // Nothing would happen until the next arrival.
      int64_t next = std::numeric_limits<int64_t>::max();
      for (size_t i = 0; i < requests_.size(); ++i) {
        if (state_[i] == State::kToCome) next = std::min(next, requests_[i].arrive_at_step);
      }
      due = std::max(due, next);
    }
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (state_[i] == State::kToCome && requests_[i].arrive_at_step <= due) Add(i);
    }
  }

  void Add(size_t index) {
    state_[index] = State::kRunning;
    const ScheduledRequest& scheduled = requests_[index];
    Outcome& outcome = outcomes_[index];
    outcome.completion.id = scheduled.request.id;
    PreparedRequest request = scheduled.request;
    request.handle = index + 1;
    request.callbacks.on_done = [this, index, &outcome](absl::StatusOr<Completion> completion) {
      state_[index] = State::kEnded;
      outcome.status = completion.status();
      if (completion.ok()) outcome.completion = *std::move(completion);
    };
    if (scheduled.record_logits) {
      request.callbacks.on_logits = [&outcome](int choice, int64_t position,
                                               std::span<const float> logits) {
        outcome.logits[{choice, position}].assign(logits.begin(), logits.end());
      };
    }
    engine_.Add(std::move(request));
  }

  void Cancel(int64_t step) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      const int64_t at = requests_[i].cancel_at_step;
      if (state_[i] == State::kRunning && at >= 0 && at <= step) engine_.Cancel(i + 1);
    }
  }

  EngineCore& engine_;
  const std::vector<ScheduledRequest> requests_;
  const ScheduleOptions options_;
  std::vector<Outcome> outcomes_;
  std::vector<State> state_;
};

}  // namespace

absl::StatusOr<std::vector<Outcome>> RunSchedule(EngineCore& engine,
                                                 std::vector<ScheduledRequest> requests,
                                                 const ScheduleOptions& options) {
  for (const ScheduledRequest& r : requests) {
    const auto tokens = static_cast<int64_t>(r.request.prompt.size());
    if (absl::Status s = engine.CheckFits(tokens, r.request.sampling); !s.ok()) {
      return absl::Status(s.code(), absl::StrCat(r.request.id, ": ", s.message()));
    }
  }
  return Run(engine, std::move(requests), options).Finish();
}

}  // namespace isobit
