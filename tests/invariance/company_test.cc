// The same request in every kind of company: cases 1, 3, 8, 10, 13 and 27 from the field.

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "invariance/workload.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

// Case 1: identical greedy requests in flight at once, with long outputs: one unique completion.
TEST(Company, Case1OneThousandIdenticalRequests) {
  PreparedRequest request = MakeRequest("same", Tokens(1, 24));
  request.sampling.max_tokens = 100;
  const Digest alone = RunAlone({request})[0].completion.digest;
  for (bool prefix_cache : {false, true}) {
    const auto engine = MakeEngine({.max_num_seqs = 1000,
                                    .max_num_batched_tokens = 4096,
                                    .kv_cache_tokens = 160000,
                                    .prefix_cache = prefix_cache});
    std::set<std::string> digests;
    for (const auto& completion :
         engine->Generate(std::vector<Request>(1000, AsRequest(request)))) {
      ASSERT_TRUE(completion.ok()) << completion.status();
      ASSERT_EQ(completion->choices[0].token_ids.size(), 100u);
      digests.insert(completion->digest.ToHex());
    }
    EXPECT_EQ(digests, std::set<std::string>{alone.ToHex()});
    EXPECT_EQ(engine->Stats().preemptions, 0);
  }
}

// Case 3: a decoding request alone, beside a long prefill, and beside many short requests.
TEST(Company, Case3DecodeBesidePrefills) {
  PreparedRequest request = MakeRequest("decoding", Tokens(2, 20));
  request.sampling.max_tokens = 60;
  const std::vector<Outcome> alone = RunAlone({request});

  PreparedRequest long_prefill = MakeRequest("long", Tokens(3, 1500));
  std::vector<ScheduledRequest> beside_long = {{.request = request}};
  beside_long.push_back({.request = long_prefill, .arrive_at_step = 5, .record_logits = false});
  const auto chunked = MakeCore({.max_num_batched_tokens = 64, .prefix_cache = false});
  EXPECT_EQ(Difference(alone[0], RunScheduled(*chunked, beside_long)[0]), "");
  // Some of its tokens were drawn in steps of the other's prefill.
  EXPECT_GE(chunked->Stats().steps, 1500 / 64);
  EXPECT_LT(chunked->Stats().steps, 1500 / 64 + 60);

  std::vector<ScheduledRequest> beside_short = {{.request = request}};
  for (int i = 0; i < 100; ++i) {
    beside_short.push_back({.request = MakeRequest("short", Tokens(100 + i, 1 + i % 7)),
                            .arrive_at_step = i / 2,
                            .record_logits = false});
  }
  const auto crowded = MakeCore({.max_num_seqs = 64, .prefix_cache = false});
  EXPECT_EQ(Difference(alone[0], RunScheduled(*crowded, beside_short)[0]), "");
}

// Case 8: the same sequence scored in micro-batches of 1, 2, 4, 8.
TEST(Company, Case8ScoringInMicroBatches) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("score ", i), Tokens(10 + i, 30 + 17 * i)));
    requests.back().sampling.max_tokens = 0;
    requests.back().sampling.prompt_logprobs = 4;
  }
  const std::vector<Outcome> alone = RunAlone(requests);
  for (int64_t batch : {1, 2, 4, 8}) {
    const auto engine =
        MakeCore({.max_num_seqs = batch, .max_num_batched_tokens = 4096, .prefix_cache = false});
    EXPECT_EQ(Difference(alone, RunTogether(*engine, requests)), "") << batch;
  }
}

// Case 10: seeded requests alone and among others with other seeds, no seed, other filters.
TEST(Company, Case10SeedsInCompany) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 12; ++i) {
    PreparedRequest r = MakeRequest(absl::StrCat("sampled ", i), Tokens(4, 15));
    r.sampling.temperature = 0.7 + 0.1 * (i % 5);
    r.sampling.top_k = i % 3 == 0 ? 20 : 0;
    r.sampling.top_p = i % 4 == 1 ? 0.8 : 1;
    r.sampling.min_p = i % 4 == 2 ? 0.05 : 0;
    r.sampling.max_tokens = 20;
    r.seed = static_cast<uint64_t>(i / 2);
    requests.push_back(r);
  }
  const std::vector<Outcome> alone = RunAlone(requests);
  std::set<std::string> digests;
  for (const Outcome& o : alone) digests.insert(o.completion.digest.ToHex());
  EXPECT_EQ(digests.size(), requests.size());

  const auto engine = MakeCore({.max_num_seqs = 48});
  std::vector<ScheduledRequest> scheduled;
  for (const PreparedRequest& r : requests) scheduled.push_back({.request = r});
  for (PreparedRequest& noise : MakeNoise(engine->model(), 5, 30, 40)) {
    scheduled.push_back({.request = std::move(noise), .record_logits = false});
  }
  std::vector<Outcome> together = RunScheduled(*engine, std::move(scheduled));
  together.resize(requests.size());
  EXPECT_EQ(Difference(alone, together), "");
}

// Case 10: a request without a seed gets one, and with it gives the same again in other company.
TEST(Company, Case10DrawnSeedRepeats) {
  const auto engine = MakeEngine();
  Request request = AsRequest(MakeRequest("no seed", Tokens(6, 10)));
  request.sampling.temperature = 1;
  request.sampling.seed.reset();
  const auto drawn = engine->Generate({request, request, request});
  ASSERT_TRUE(drawn[0].ok() && drawn[1].ok());
  ASSERT_TRUE(drawn[0]->seed.has_value());
  EXPECT_NE(*drawn[0]->seed, *drawn[1]->seed);
  request.sampling.seed = drawn[0]->seed;
  EXPECT_EQ(engine->Generate({request})[0]->digest, drawn[0]->digest);
}

// Case 13: asking for log-probabilities changes nothing, neither for oneself nor for others.
TEST(Company, Case13LogProbsChangeNothing) {
  std::vector<PreparedRequest> plain, asking;
  for (int i = 0; i < 8; ++i) {
    PreparedRequest r = MakeRequest(absl::StrCat("r", i), Tokens(20 + i, 5 + 9 * i));
    r.sampling.temperature = i % 2 == 0 ? 0 : 0.9;
    r.seed = 77;
    r.sampling.logprobs.reset();
    plain.push_back(r);
    r.sampling.logprobs = i;
    r.sampling.prompt_logprobs = 7 - i;
    if (i % 3 == 0) r.sampling.logprobs_mode = LogProbsMode::kProcessed;
    asking.push_back(r);
  }
  const std::vector<Outcome> alone = RunAlone(plain);
  std::vector<PreparedRequest> mixed = plain;
  for (size_t i = 0; i < mixed.size(); i += 2) mixed[i] = asking[i];
  for (const auto& requests : {plain, asking, mixed}) {
    const auto engine = MakeCore();
    EXPECT_EQ(Difference(alone, RunTogether(*engine, requests), CompareScope::kShared), "");
  }
}

// Case 27: as requests with fewer tokens finish, nothing shifts for those that go on.
TEST(Company, Case27RequestsOfUnequalLength) {
  std::vector<PreparedRequest> requests;
  const int64_t lengths[] = {1, 5, 50, 500};
  for (int i = 0; i < 4; ++i) {
    PreparedRequest r = MakeRequest(absl::StrCat("length ", lengths[i]), Tokens(30 + i, 10));
    r.sampling.max_tokens = lengths[i];
    r.sampling.logprobs = 4 - i;
    requests.push_back(r);
  }
  const std::vector<Outcome> alone = RunAlone(requests);
  EXPECT_EQ(alone[3].completion.choices[0].logprobs->size(), 500u);
  const auto engine = MakeCore({.prefix_cache = false});
  EXPECT_EQ(Difference(alone, RunTogether(*engine, requests)), "");
  std::vector<PreparedRequest> backwards(requests.rbegin(), requests.rend());
  std::vector<Outcome> got = RunTogether(*engine, backwards);
  std::ranges::reverse(got);
  EXPECT_EQ(Difference(alone, got), "");
}

}  // namespace
}  // namespace isobit
