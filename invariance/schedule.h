#ifndef ISOBIT_INVARIANCE_SCHEDULE_H_
#define ISOBIT_INVARIANCE_SCHEDULE_H_

// Runs requests through an engine, step by step, with arrivals and cancellations at chosen steps,
// and records everything that comes of them. No clock and no thread: the same schedule is the same
// run.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/outcome.h"
#include "runtime/engine/engine_core.h"

namespace isobit {

struct ScheduledRequest {
  PreparedRequest request;      // the run sets its handle, on_done and on_logits
  int64_t arrive_at_step = 0;   // steps run before; earlier if nothing else is left to do
  int64_t cancel_at_step = -1;  // -1: never
  bool record_logits = true;
};

struct ScheduleOptions {
  // Before every step, memory of pages that hold nothing is filled with NaN.
  bool poison_free_pages = false;
  // After every step, the engine's pages and queues are checked.
  bool check_integrity = true;
  // Called after every step; may be empty.
  std::function<void(int64_t step)> after_step = nullptr;
};

// Runs until every request has ended; one outcome a request, in their order. An error is the
// engine's: a failed step or a broken invariant. REQUIRES: the engine has no other work.
absl::StatusOr<std::vector<Outcome>> RunSchedule(EngineCore& engine,
                                                 std::vector<ScheduledRequest> requests,
                                                 const ScheduleOptions& options = {});

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_SCHEDULE_H_
