#include "tools/isobit/engine_timer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace isobit {
namespace {

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

PreparedRequest MakeUpRequest(const Model& model, int64_t prompt_tokens, int64_t max_tokens,
                              int64_t salt) {
  PreparedRequest request;
  request.handle = static_cast<RequestHandle>(salt + 1);
  for (int64_t i = 0; i < prompt_tokens; ++i) {
    request.prompt.push_back(
        static_cast<int32_t>((i * 7919 + salt * 104729 + 17) % model.config().vocab));
  }
  request.sampling.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.callbacks.on_done = [](const absl::StatusOr<Completion>&) {};
  return request;
}

absl::StatusOr<std::unique_ptr<EngineTimer>> EngineTimer::Create(std::unique_ptr<Model> model,
                                                                 const EngineOptions& options) {
  EngineOptions used = options;
  used.prefix_cache = false;  // every prefill is one
  used.audit_share = 0;
  auto core = EngineCore::Create(std::move(model), used);
  if (!core.ok()) return core.status();
  return std::unique_ptr<EngineTimer>(new EngineTimer(*std::move(core)));
}

std::unique_ptr<Model> EngineTimer::TakeModel(std::unique_ptr<EngineTimer> timer) {
  return EngineCore::TakeModel(std::move(timer->core_));
}

absl::Status EngineTimer::Add(const RequestLoad& load) {
  token_times_.assign(static_cast<size_t>(load.requests), {});
  for (int64_t i = 0; i < load.requests; ++i) {
    PreparedRequest request = MakeUpRequest(core_->model(), load.prompt_tokens, load.max_tokens, i);
    if (absl::Status s = core_->CheckFits(load.prompt_tokens, request.sampling); !s.ok()) return s;
    request.callbacks.on_token = [times = &token_times_[static_cast<size_t>(i)]](
                                     const TokenEvent&) { times->push_back(Clock::now()); };
    core_->Add(std::move(request));
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadTimes> EngineTimer::Run(const RequestLoad& load) {
  if (absl::Status s = Add(load); !s.ok()) {
    core_->FailAll(s);
    return s;
  }
  LoadTimes times;
  std::vector<double> decode_steps;
  const Clock::time_point begin = Clock::now();
  while (core_->HasWork()) {
    const EngineStats before = core_->Stats();
    const Clock::time_point step_begin = Clock::now();
    if (absl::Status s = core_->Step(); !s.ok()) return s;
    const EngineStats after = core_->Stats();
    // Once steps are replayed from a recording, those that are not are something else.
    const bool is_typical =
        after.replayed_steps == 0 || after.replayed_steps > before.replayed_steps;
    if (after.generated_tokens - before.generated_tokens == load.requests && is_typical) {
      decode_steps.push_back(Seconds(Clock::now() - step_begin));
    }
  }
  times.seconds = Seconds(Clock::now() - begin);
  for (const auto& request : token_times_) {
    if (request.empty()) return absl::InternalError("a request ended without a token");
  }
  times.first_token = Seconds(token_times_.front().front() - begin);
  if (!decode_steps.empty()) times.decode_step = Median(std::move(decode_steps));

  Clock::time_point all_began = Clock::time_point::min(), end = all_began;
  for (const auto& request : token_times_) {
    all_began = std::max(all_began, request.front());
    end = std::max(end, request.back());
  }
  int64_t tokens = 0;
  for (const auto& request : token_times_) {
    tokens += std::count_if(request.begin(), request.end(),
                            [&](Clock::time_point time) { return time > all_began; });
  }
  if (tokens > 0) times.decode_rate = static_cast<double>(tokens) / Seconds(end - all_began);
  return times;
}

}  // namespace isobit
