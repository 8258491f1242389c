// Case 14 without a GPU: steps that are replayed as they were recorded, issued one before the
// tokens of the other are known, or not.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

// Requests that end one after the other, so that there are steps of every number of sequences, with
// page tables that grow; and again, in an engine that has recorded all shapes.
TEST(RecordedSteps, GiveTheBitsOfEagerOnes) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 7; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(300 + i, 3 + 9 * i)));
    requests.back().sampling.max_tokens = 5 + 6 * i;
    if (i % 2 == 1) requests.back().sampling.temperature = 1;
  }
  const std::vector<Outcome> alone = RunAlone(requests, {}, "reference");
  EngineOptions options = {
      .max_num_seqs = 8, .block_size = 16, .kv_cache_tokens = 4096, .prefix_cache = false};
  for (const auto& [eager, async] :
       {std::pair(false, false), std::pair(false, true), std::pair(true, true)}) {
    options.enforce_eager = eager;
    options.async_scheduling = async;
    const auto engine = MakeCore(options, {}, "late gpu");
    for (int run = 0; run < 2; ++run) {
      const int64_t before = engine->Stats().replayed_steps;
      EXPECT_EQ(Difference(alone, RunTogether(*engine, requests)), "") << "run " << run;
      const int64_t replayed = engine->Stats().replayed_steps - before;
      if (eager) {
        EXPECT_EQ(replayed, 0);
      } else {
        EXPECT_GT(replayed, 10) << "run " << run;
      }
    }
  }
}

// Preempted sequences come back with other pages, at other places of the batch.
TEST(RecordedSteps, UnderPreemption) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(400 + i, 20 + i)));
    requests.back().sampling.max_tokens = 40;
  }
  const std::vector<Outcome> alone = RunAlone(requests, {}, "reference");
  const auto engine =
      MakeCore({.max_num_seqs = 6, .block_size = 16, .kv_cache_tokens = 208, .prefix_cache = false},
               {}, "late gpu");
  EXPECT_EQ(Difference(alone, RunTogether(*engine, requests, {.poison_free_pages = true})), "");
  EXPECT_GT(engine->Stats().preemptions, 0);
  EXPECT_GT(engine->Stats().replayed_steps, 10);
}

}  // namespace
}  // namespace isobit
