// Random requests on random engines at random times: whatever the schedule, each gives what it
// gives alone, and after every step the engine's books are in order. A failure names its seed,
// which is all that it takes to see it again.

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "invariance/workload.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

struct RandomSchedule {
  EngineOptions engine;
  std::vector<ScheduledRequest> requests;
  ScheduleOptions options;
};

int64_t LongestRequest(const std::vector<ScheduledRequest>& requests) {
  int64_t longest = 0;
  for (const ScheduledRequest& r : requests) {
    longest = std::max(
        longest, static_cast<int64_t>(r.request.prompt.size()) + r.request.sampling.max_tokens);
  }
  return longest;
}

// Prompts share random prefixes, so that the cache has something to find.
RandomSchedule MakeSchedule(const Model& model, uint64_t seed) {
  SplitMix random(seed);
  RandomSchedule schedule;
  const std::vector<int32_t> stem = Tokens(seed % 3, 150);
  for (PreparedRequest& request : MakeNoise(model, seed, 4 + random.Below(14), 90)) {
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
  const int64_t pages = (LongestRequest(schedule.requests) + o.block_size - 1) / o.block_size;
  o.kv_cache_tokens = o.block_size * (pages + (random.Below(2) == 0 ? random.Below(6) : 500));
  o.prefix_cache = random.Below(3) != 0;
  schedule.options.poison_free_pages = random.Below(2) == 0;
  return schedule;
}

// Equal as far as it got.
std::string DifferenceWhenCancelled(const Outcome& alone, const Outcome& got) {
  if (!got.status.ok()) return got.status.ToString();
  for (size_t c = 0; c < got.completion.choices.size(); ++c) {
    const auto& expected = alone.completion.choices[c].token_ids;
    const auto& ids = got.completion.choices[c].token_ids;
    if (ids.size() > expected.size() || !std::equal(ids.begin(), ids.end(), expected.begin())) {
      return absl::StrCat(got.completion.id, ", choice ", c, ": other tokens before the end");
    }
  }
  for (const auto& [key, logits] : got.logits) {
    Comparison comparison;
    const auto expected = alone.logits.find(key);
    if (expected == alone.logits.end()) return "logits at a position that alone has none";
    comparison.Floats(expected->second, logits, [&](size_t i) {
      return absl::StrCat(got.completion.id, ", position ", key.second, ", logit ", i);
    });
    if (comparison.different() > 0) return comparison.Describe();
  }
  return "";
}

TEST(RandomSchedule, EqualsAlone) {
  int64_t preemptions = 0, cached = 0, cancelled = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    auto model = LoadTiny();
    const RandomSchedule schedule = MakeSchedule(*model, seed);
    std::vector<PreparedRequest> requests;
    for (const ScheduledRequest& s : schedule.requests) requests.push_back(s.request);
    const std::vector<Outcome> alone = RunAlone(requests);

    auto engine = EngineCore::Create(std::move(model), schedule.engine);
    ASSERT_TRUE(engine.ok()) << engine.status();
    const std::vector<Outcome> got = RunScheduled(**engine, schedule.requests, schedule.options);
    for (size_t i = 0; i < got.size(); ++i) {
      const bool ended_early = std::ranges::any_of(
          got[i].completion.choices,
          [](const Choice& choice) { return choice.finish_reason == FinishReason::kCancelled; });
      cancelled += ended_early ? 1 : 0;
      EXPECT_EQ(
          ended_early ? DifferenceWhenCancelled(alone[i], got[i]) : Difference(alone[i], got[i]),
          "");
    }
    const EngineStats stats = (*engine)->Stats();
    EXPECT_EQ(stats.kv_pages_in_use, 0);
    EXPECT_EQ(stats.running + stats.waiting, 0);
    preemptions += stats.preemptions;
    cached += stats.cached_tokens;
  }
  // The schedules must have been of every kind.
  EXPECT_GT(preemptions, 50);
  EXPECT_GT(cached, 1000);
  EXPECT_GT(cancelled, 20);
}

}  // namespace
}  // namespace isobit
