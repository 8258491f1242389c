#ifndef ISOBIT_TOOLS_ISOBIT_ENGINE_TIMER_H_
#define ISOBIT_TOOLS_ISOBIT_ENGINE_TIMER_H_

// Times an engine at work, one step after the other on this thread.

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/engine/engine_core.h"
#include "runtime/model/model.h"

namespace isobit {

// A greedy request of made-up tokens, others for every salt, that generates max_tokens. Errors of
// the device are Step()'s to report.
PreparedRequest MakeUpRequest(const Model& model, int64_t prompt_tokens, int64_t max_tokens,
                              int64_t salt);

// Requests of this kind that come at once, none alike.
struct RequestLoad {
  int64_t requests = 1;
  int64_t prompt_tokens = 1;
  int64_t max_tokens = 1;  // that each generates
};

struct LoadTimes {
  double seconds = 0;      // from the first step to the end of the last
  double first_token = 0;  // until the first request's first token
  double decode_rate = 0;  // tokens a second from when every request had its first; 0: none came
  double decode_step = 0;  // seconds, the median of steps that gave a token to each; 0: none did
};

// The upper one of an even number. REQUIRES: at least one.
double Median(std::vector<double> values);

class EngineTimer {
 public:
  // Of an engine with these options; its errors. Its results are not audited.
  static absl::StatusOr<std::unique_ptr<EngineTimer>> Create(std::unique_ptr<Model> model,
                                                             const EngineOptions& options);

  // Runs all requests to their end. Errors are of the device, or say what does not fit.
  absl::StatusOr<LoadTimes> Run(const RequestLoad& load);

  const EngineCore& core() const { return *core_; }
  // Ends the engine.
  static std::unique_ptr<Model> TakeModel(std::unique_ptr<EngineTimer> timer);

 private:
  using Clock = std::chrono::steady_clock;

  explicit EngineTimer(std::unique_ptr<EngineCore> core) : core_(std::move(core)) {}
  absl::Status Add(const RequestLoad& load);

  std::unique_ptr<EngineCore> core_;
  std::vector<std::vector<Clock::time_point>> token_times_;  // of each request of the run
};

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_ENGINE_TIMER_H_
