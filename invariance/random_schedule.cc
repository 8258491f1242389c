#include "invariance/random_schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "invariance/workload.h"
#include "runtime/engine/engine_core.h"

namespace isobit {
namespace {

int64_t TokensOf(const ScheduledRequest& r) {
  return static_cast<int64_t>(r.request.prompt.size()) + r.request.sampling.max_tokens;
}

int64_t LongestRequest(const std::vector<ScheduledRequest>& requests) {
  int64_t longest = 1;
  for (const ScheduledRequest& r : requests) longest = std::max(longest, TokensOf(r));
  return longest;
}

// Pages of the engine that hold the longest request.
int64_t PagesNeeded(const RequestSchedule& schedule) {
  const int64_t page = schedule.engine.block_size;
  return (LongestRequest(schedule.requests) + page - 1) / page;
}

bool EndedEarly(const Outcome& outcome) {
  return std::ranges::any_of(outcome.completion.choices, [](const Choice& choice) {
    return choice.finish_reason == FinishReason::kCancelled;
  });
}

// Equal as far as it got.
void CompareCancelled(const Outcome& alone, const Outcome& got, Comparison* comparison) {
  const std::string& id = got.completion.id;
  if (!got.status.ok() || !alone.status.ok()) {
    const absl::Status& status = got.status.ok() ? alone.status : got.status;
    return comparison->Fail(absl::StrCat(id, ": ", status.message()));
  }
  for (size_t c = 0; c < got.completion.choices.size(); ++c) {
    std::vector<int32_t> expected = alone.completion.choices[c].token_ids;
    const std::vector<int32_t>& ids = got.completion.choices[c].token_ids;
    expected.resize(std::min(expected.size(), ids.size()));
    comparison->Integers(expected, ids, [&](size_t i) {
      return absl::StrCat(id, ", choice ", c, " (cancelled), output token ", i);
    });
  }
  for (const auto& [key, logits] : got.logits) {
    const auto expected = alone.logits.find(key);
    const std::string place =
        absl::StrCat(id, ", choice ", key.first, " (cancelled), position ", key.second);
    if (expected == alone.logits.end()) {
      comparison->Fail(place + ": not computed when alone");
      continue;
    }
    comparison->Floats(expected->second, logits,
                       [&](size_t i) { return absl::StrCat(place, ", logit ", i); });
  }
}

absl::StatusOr<std::vector<Outcome>> RunOn(std::unique_ptr<Model>& model,
                                           const EngineOptions& options,
                                           std::vector<ScheduledRequest> requests,
                                           const ScheduleOptions& how, EngineStats* stats) {
  auto engine = EngineCore::Create(std::move(model), options);
  if (!engine.ok()) return engine.status();
  auto outcomes = RunSchedule(**engine, std::move(requests), how);
  *stats = (*engine)->Stats();
  model = EngineCore::TakeModel(*std::move(engine));
  return outcomes;
}

// ---- Shrinking

class Shrinker {
 public:
  Shrinker(RequestSchedule schedule, const std::function<bool(const RequestSchedule&)>& fails,
           int most_runs)
      : best_(std::move(schedule)), fails_(fails), runs_left_(most_runs) {}

  RequestSchedule Run() {
    bool smaller = true;
    while (smaller && runs_left_ > 0) {
      smaller = RemoveRequests();
      smaller = SimplifyRequests() || smaller;
      smaller = SimplifyEngine() || smaller;
    }
    return std::move(best_);
  }

 private:
  bool Try(RequestSchedule candidate) {
    if (runs_left_ <= 0) return false;
    --runs_left_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  // Halves, quarters, ... and then one by one.
  bool RemoveRequests() {
    bool any = false;
    for (size_t size = best_.requests.size() / 2; size >= 1; size /= 2) {
      for (size_t begin = 0; begin < best_.requests.size() && best_.requests.size() > 1;) {
        RequestSchedule candidate = best_;
        const size_t end = std::min(candidate.requests.size(), begin + size);
        if (end - begin == candidate.requests.size()) break;
        candidate.requests.erase(candidate.requests.begin() + static_cast<ptrdiff_t>(begin),
                                 candidate.requests.begin() + static_cast<ptrdiff_t>(end));
        if (Try(std::move(candidate))) {
          any = true;
        } else {
          begin += size;
        }
      }
    }
    return any;
  }

  // Applies `change` to one request; false if it changes nothing or the fault is gone.
  template <typename Change>
  bool TryOn(size_t i, const Change& change) {
    RequestSchedule candidate = best_;
    if (!change(candidate.requests[i])) return false;
    return Try(std::move(candidate));
  }

  bool SimplifyRequests() {
    bool any = false;
    for (size_t i = 0; i < best_.requests.size(); ++i) {
      const auto set = [](int64_t& field, int64_t value) {
        return std::exchange(field, value) != value;
      };
      any |= TryOn(i, [&](ScheduledRequest& r) { return set(r.cancel_at_step, -1); });
      any |= TryOn(i, [&](ScheduledRequest& r) { return set(r.arrive_at_step, 0); });
      any |= TryOn(i, [&](ScheduledRequest& r) { return set(r.request.sampling.n, 1); });
      any |= TryOn(i, [](ScheduledRequest& r) {
        SamplingParams plain;
        plain.temperature = 0;
        plain.ignore_eos = true;
        plain.max_tokens = r.request.sampling.max_tokens;
        plain.logprobs = r.request.sampling.logprobs;
        plain.seed = r.request.sampling.seed;
        plain.n = r.request.sampling.n;
        plain.prompt_logprobs = r.request.sampling.prompt_logprobs;
        const bool changes = r.request.sampling.temperature != 0;
        r.request.sampling = plain;
        return changes;
      });
      any |= TryOn(i, [](ScheduledRequest& r) {
        const bool changes = r.request.sampling.prompt_logprobs.has_value();
        r.request.sampling.prompt_logprobs.reset();
        return changes;
      });
      while (TryOn(i, [](ScheduledRequest& r) {
        const bool changes = r.request.sampling.max_tokens > 1;
        r.request.sampling.max_tokens /= 2;
        return changes;
      })) {
        any = true;
      }
      while (TryOn(i, [](ScheduledRequest& r) {
        const size_t size = r.request.prompt.size();
        r.request.prompt.resize((size + 1) / 2);
        return size > 1;
      })) {
        any = true;
      }
    }
    return any;
  }

  bool SimplifyEngine() {
    bool any = false;
    const auto change = [&](auto&& apply) {
      RequestSchedule candidate = best_;
      if (apply(candidate)) any |= Try(std::move(candidate));
    };
    change([](RequestSchedule& s) { return std::exchange(s.poison_free_pages, false); });
    change([](RequestSchedule& s) { return std::exchange(s.engine.prefix_cache, false); });
    change([](RequestSchedule& s) {
      const int64_t roomy = s.engine.block_size * 1000;
      return std::exchange(s.engine.kv_cache_tokens, roomy) != roomy;
    });
    change([](RequestSchedule& s) {
      return std::exchange(s.engine.max_num_batched_tokens, 512) != 512;
    });
    return any;
  }

  RequestSchedule best_;
  const std::function<bool(const RequestSchedule&)>& fails_;
  int runs_left_;
};

}  // namespace

RequestSchedule MakeRandomSchedule(const Model& model, uint64_t seed) {
  SplitMix random(seed);
  RequestSchedule schedule;
  SplitMix stems(seed % 3);
  const int64_t most = std::min<int64_t>(90, std::max<int64_t>(1, model.max_positions() / 8));
  const std::vector<int32_t> stem = RandomTokens(stems, 2 * most, model.config().vocab);
  for (PreparedRequest& request : MakeNoise(model, seed, 4 + random.Below(14), most)) {
    request.sampling.max_tokens = random.Below(30);
    request.sampling.n = random.Below(5) == 0 ? 3 : 1;
    if (random.Below(3) == 0) request.sampling.prompt_logprobs = random.Below(3);
    if (random.Below(2) == 0) {
      const int64_t shared = random.Below(static_cast<int64_t>(stem.size()));
      request.prompt.insert(request.prompt.begin(), stem.begin(), stem.begin() + shared);
    }
    ScheduledRequest s = {.request = std::move(request), .arrive_at_step = random.Below(40)};
    if (random.Below(5) == 0) s.cancel_at_step = s.arrive_at_step + random.Below(20);
    schedule.requests.push_back(std::move(s));
  }
  EngineOptions& o = schedule.engine;
  o.max_num_seqs = 1 + random.Below(20);
  o.max_num_batched_tokens = random.Below(2) == 0 ? 1 + random.Below(40) : 512;
  o.block_size = 16 * (1 + random.Below(4));
  const int64_t spare = random.Below(2) == 0 ? random.Below(6) : 500;
  o.kv_cache_tokens = o.block_size * (PagesNeeded(schedule) + spare);
  o.prefix_cache = random.Below(3) != 0;
  schedule.poison_free_pages = random.Below(2) == 0;
  return schedule;
}

absl::Status ValidateSchedule(const RequestSchedule& schedule, const Model& model) {
  const int64_t vocab = model.config().vocab;
  for (const ScheduledRequest& scheduled : schedule.requests) {
    const PreparedRequest& r = scheduled.request;
    for (int32_t id : r.prompt) {
      if (id >= 0 && id < vocab) continue;
      return absl::InvalidArgumentError(absl::StrCat(r.id, ": prompt token ids must be in [0, ",
                                                     vocab, ") for this model, got ", id));
    }
    if (absl::Status s = ValidateSampling(r.sampling, vocab); !s.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(r.id, ": ", s.message()));
    }
  }
  return absl::OkStatus();
}

ScheduleReport RunAndCompare(std::unique_ptr<Model>& model, const RequestSchedule& schedule) {
  ScheduleReport report;
  Comparison comparison;
  EngineOptions one = {.max_num_seqs = 1, .prefix_cache = false};
  one.kv_cache_tokens = one.block_size * (LongestRequest(schedule.requests) / one.block_size + 2);
  std::vector<ScheduledRequest> in_turn = schedule.requests;
  for (ScheduledRequest& r : in_turn) {
    r.arrive_at_step = 0;
    r.cancel_at_step = -1;
  }
  EngineStats stats;
  const auto alone = RunOn(model, one, std::move(in_turn), {}, &stats);
  if (alone.ok()) {
    const auto got = RunOn(model, schedule.engine, schedule.requests,
                           {.poison_free_pages = schedule.poison_free_pages}, &stats);
    report.preemptions = stats.preemptions;
    report.cached_tokens = stats.cached_tokens;
    for (size_t i = 0; got.ok() && i < got->size(); ++i) {
      if (EndedEarly((*got)[i])) {
        ++report.cancelled;
        CompareCancelled((*alone)[i], (*got)[i], &comparison);
      } else {
        CompareOutcomes((*alone)[i], (*got)[i], CompareScope::kAll, &comparison);
      }
    }
    if (!got.ok()) comparison.Fail(std::string(got.status().message()));
    if (stats.kv_pages_in_use != 0) comparison.Fail("pages are held after the last request");
  } else {
    comparison.Fail(absl::StrCat("alone: ", alone.status().message()));
  }
  report.compared = comparison.compared();
  report.difference = comparison.Describe();
  if (report.compared == 0 && report.difference.empty()) report.difference = "nothing was compared";
  return report;
}

RequestSchedule Shrink(RequestSchedule schedule,
                       const std::function<bool(const RequestSchedule&)>& fails, int most_runs) {
  return Shrinker(std::move(schedule), fails, most_runs).Run();
}

}  // namespace isobit
