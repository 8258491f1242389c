#ifndef ISOBIT_INVARIANCE_RANDOM_SCHEDULE_H_
#define ISOBIT_INVARIANCE_RANDOM_SCHEDULE_H_

// Random schedules: requests of every kind on an engine of random limits, arriving and cancelled at
// random steps. Each request must give what it gives alone. One that does not is shrunk to a small
// schedule that still shows it, and written to a file that `isobit check --schedule` runs again.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/comparison.h"
#include "invariance/schedule.h"
#include "runtime/engine/engine.h"
#include "runtime/model/model.h"

namespace isobit {

struct RequestSchedule {
  EngineOptions engine;
  std::vector<ScheduledRequest> requests;
  bool poison_free_pages = false;
};

// The same for the same seed and vocabulary, on every machine. Prompts share random prefixes, so
// that the cache has something to find.
RequestSchedule MakeRandomSchedule(const Model& model, uint64_t seed);

// What of the engine came up, so that a proof can say that it was put to the test.
struct ScheduleReport {
  int64_t compared = 0;    // values
  std::string difference;  // the first, or why the schedule could not be run; empty: none
  int64_t preemptions = 0;
  int64_t cached_tokens = 0;
  int64_t cancelled = 0;  // requests that ended early: compared as far as they got
};

// OK if this model's vocabulary holds what the schedule asks for; InvalidArgument names what not.
absl::Status ValidateSchedule(const RequestSchedule& schedule, const Model& model);

// Runs every request alone (one sequence at a time, no prefix cache) and then all as scheduled.
// The model is taken and given back, unless the engine can't be made: then it is null and the
// difference says why.
ScheduleReport RunAndCompare(std::unique_ptr<Model>& model, const RequestSchedule& schedule);

// A smaller schedule for which `fails` still holds: fewer requests, then shorter and simpler ones,
// then an engine with fewer limits. Calls `fails` at most `most_runs` times.
// REQUIRES: fails(schedule).
RequestSchedule Shrink(RequestSchedule schedule,
                       const std::function<bool(const RequestSchedule&)>& fails,
                       int most_runs = 400);

// {"format": "isobit schedule", "version": 1, "engine": {...}, "requests": [{...,
// "prompt_token_ids", "sampling", "arrive_at_step", "cancel_at_step"}]}. Strict, as receipts are.
std::string ScheduleToJson(const RequestSchedule& schedule);
absl::StatusOr<RequestSchedule> ParseSchedule(std::string_view text);
// Errors name the path.
absl::StatusOr<RequestSchedule> ReadSchedule(const std::string& path);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_RANDOM_SCHEDULE_H_
