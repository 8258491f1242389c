// The same request wherever its keys and values lie and whatever lies around them: cases 6, 9, 24
// and 25 from the field.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "invariance/workload.h"
#include "tests/invariance/poisoned_backend.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

// Case 6: a request is preempted after it has drawn 1, 8 or 31 tokens. The one before it grows into
// another page just then, and no page is left.
class PreemptionTest : public testing::TestWithParam<int64_t> {};

TEST_P(PreemptionTest, Case6PreemptedAfterSomeTokens) {
  const int64_t drawn = GetParam();
  // With as many tokens drawn, the first one has 65 and needs a fifth page.
  PreparedRequest first = MakeRequest("first", Tokens(1, 65 - drawn));
  PreparedRequest second = MakeRequest("second", Tokens(2, 3));
  for (PreparedRequest* r : {&first, &second}) {
    r->sampling.max_tokens = drawn + 10;
    r->sampling.temperature = 0.8;
    r->sampling.prompt_logprobs = 1;
    r->seed = 3;
  }
  const std::vector<Outcome> alone = RunAlone({first, second});

  const int64_t pages = 64 / 16 + (3 + drawn + 15) / 16;
  const auto engine =
      MakeCore({.block_size = 16, .kv_cache_tokens = 16 * pages, .prefix_cache = false});
  int64_t tokens = 0, at_preemption = -1;
  second.callbacks.on_token = [&](const TokenEvent&) { ++tokens; };
  const auto note = [&](int64_t) {
    if (at_preemption < 0 && engine->Stats().preemptions > 0) at_preemption = tokens;
  };
  EXPECT_EQ(Difference(alone, RunTogether(*engine, {first, second}, {.after_step = note})), "");
  EXPECT_EQ(at_preemption, drawn);
  EXPECT_EQ(engine->Stats().kv_pages_in_use, 0);
}

INSTANTIATE_TEST_SUITE_P(All, PreemptionTest, testing::Values(1, 8, 31));

// Case 6: a crowd in a pool for two.
TEST(Memory, Case6TinyPool) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 20; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(10 + i, 1 + 3 * i)));
    requests.back().sampling.max_tokens = 40;
    requests.back().sampling.n = i % 7 == 0 ? 3 : 1;
    requests.back().sampling.temperature = 0.9;
    if (i % 2 == 0) requests.back().sampling.prompt_logprobs = 2;
  }
  const std::vector<Outcome> alone = RunAlone(requests);
  for (bool prefix_cache : {false, true}) {
    const auto engine =
        MakeCore({.block_size = 16, .kv_cache_tokens = 208, .prefix_cache = prefix_cache});
    EXPECT_EQ(Difference(alone, RunTogether(*engine, requests)), "");
    EXPECT_GT(engine->Stats().preemptions, 5);
  }
}

// Case 9: other pages, page tables and slots. Before each run other requests come and go in another
// number, so that the free pages lie in another order.
TEST(Memory, Case9OtherPages) {
  PreparedRequest request = MakeRequest("moving", Tokens(3, 150));
  request.sampling.max_tokens = 30;
  const std::vector<Outcome> alone = RunAlone({request});
  for (int64_t block : {16, 32, 64, 128}) {
    const auto engine =
        MakeCore({.block_size = block, .kv_cache_tokens = 4096, .prefix_cache = false});
    for (uint64_t round = 0; round < 8; ++round) {
      std::vector<ScheduledRequest> scheduled;
      for (PreparedRequest& noise :
           MakeNoise(engine->model(), round, static_cast<int64_t>(round), 200)) {
        scheduled.push_back({.request = std::move(noise), .record_logits = false});
      }
      // In another place of the batch each time.
      const auto place = static_cast<ptrdiff_t>(round / 2);
      scheduled.insert(scheduled.begin() + place, {.request = request, .arrive_at_step = 2});
      const std::vector<Outcome> got = RunScheduled(*engine, scheduled);
      EXPECT_EQ(Difference(alone[0], got[static_cast<size_t>(place)]), "");
    }
  }
}

// Case 24: five requests in a step made for eight, NaN in every workspace and unused page before
// it.
TEST(Memory, Case24PoisonedWorkspace) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(50 + i, 7 + 11 * i)));
    requests.back().sampling.logprobs = i;
    if (i == 2) requests.back().sampling.temperature = 1;
    if (i == 3) requests.back().sampling.prompt_logprobs = 1;
  }
  std::vector<std::string> backends = {"reference", "cpu"};
  if (HasCuda()) backends.push_back("cuda");
  for (const std::string& backend : backends) {
    const std::vector<Outcome> alone = RunAlone(requests, {}, backend);
    int64_t poisoned = 0;
    auto model =
        Model::Load(WriteTinyModel(), MakePoisonedBackend(MakeBackend(backend), &poisoned));
    ASSERT_TRUE(model.ok()) << model.status();
    auto engine = EngineCore::Create(*std::move(model), {.max_num_seqs = 8,
                                                         .max_num_batched_tokens = 64,
                                                         .kv_cache_tokens = 4096,
                                                         .prefix_cache = false});
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ(Difference(alone, RunTogether(**engine, requests, {.poison_free_pages = true})), "");
    EXPECT_GT(poisoned, 0);
  }
}

// Case 25: page 0 and all free pages hold NaN before every step, while pages are taken, given back
// and, in a tiny pool, taken away.
TEST(Memory, Case25PoisonedPages) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 9; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(70 + i, 2 + 13 * i)));
    requests.back().sampling.max_tokens = 10 + 5 * i;
  }
  const std::vector<Outcome> alone = RunAlone(requests);
  for (int64_t pool : {208, 8192}) {
    for (int64_t block : {16, 48}) {
      for (bool prefix_cache : {false, true}) {
        const auto engine = MakeCore({.max_num_batched_tokens = 50,
                                      .block_size = block,
                                      .kv_cache_tokens = pool,
                                      .prefix_cache = prefix_cache});
        EXPECT_EQ(Difference(alone, RunTogether(*engine, requests, {.poison_free_pages = true})),
                  "");
        EXPECT_EQ(engine->Stats().preemptions > 0, pool < 1000);
      }
    }
  }
}

}  // namespace
}  // namespace isobit
