// Completions drawn again from one prefill, and audits of a running engine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "invariance/workload.h"
#include "kernels/numerics/bf16.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

std::vector<PreparedRequest> Workload(const Model& model) {
  auto requests = MakeWorkload(model, {.output = 12});
  EXPECT_TRUE(requests.ok()) << requests.status();
  return *std::move(requests);
}

PreparedRequest RedrawOf(const PreparedRequest& request, const Choice& choice,
                         std::vector<int64_t> at) {
  PreparedRequest again = request;
  again.redraw = {.choice = choice.index, .output = choice.token_ids, .at = std::move(at)};
  return again;
}

std::vector<int64_t> All(const Choice& choice) {
  std::vector<int64_t> at;
  for (size_t i = 0; i < choice.token_ids.size(); ++i) at.push_back(static_cast<int64_t>(i));
  return at;
}

// Runs redraws together; what each drew, by index.
std::vector<std::map<int64_t, SampledToken>> RunRedraws(EngineCore& engine,
                                                        std::vector<PreparedRequest> redraws) {
  std::vector<std::map<int64_t, SampledToken>> drawn(redraws.size());
  for (size_t i = 0; i < redraws.size(); ++i) {
    redraws[i].handle = i + 1;
    redraws[i].callbacks.on_redrawn = [&drawn, i](int64_t index, const SampledToken& token) {
      EXPECT_TRUE(drawn[i].emplace(index, token).second) << "drawn twice";
    };
    redraws[i].callbacks.on_done = [](const absl::StatusOr<Completion>& done) {
      EXPECT_TRUE(done.ok()) << done.status();
    };
    engine.Add(std::move(redraws[i]));
  }
  while (engine.HasWork()) {
    EXPECT_TRUE(engine.Step().ok());
    EXPECT_TRUE(engine.CheckIntegrity().ok()) << engine.CheckIntegrity();
  }
  return drawn;
}

// Every kind of request: greedy, sampled with every filter and penalty, several choices, stops.
TEST(Redraw, GivesEveryTokenAndLogProbability) {
  const std::vector<PreparedRequest> requests = Workload(*LoadTiny());
  const std::vector<Outcome> outcomes = RunAlone(requests);
  EngineOptions chunks;
  chunks.max_num_batched_tokens = 7;
  for (const EngineOptions& options : {EngineOptions{}, chunks}) {
    const auto engine = MakeCore(options);
    std::vector<PreparedRequest> redraws;
    std::vector<std::pair<const PreparedRequest*, const Choice*>> of;
    for (size_t i = 0; i < requests.size(); ++i) {
      for (const Choice& choice : outcomes[i].completion.choices) {
        redraws.push_back(RedrawOf(requests[i], choice, All(choice)));
        of.emplace_back(&requests[i], &choice);
      }
    }
    const auto drawn = RunRedraws(*engine, std::move(redraws));
    int64_t compared = 0;
    for (size_t i = 0; i < drawn.size(); ++i) {
      const auto& [request, choice] = of[i];
      const bool processed = request->sampling.logprobs_mode == LogProbsMode::kProcessed;
      ASSERT_EQ(drawn[i].size(), choice->token_ids.size()) << request->id;
      for (const auto& [index, token] : drawn[i]) {
        const auto at = static_cast<size_t>(index);
        EXPECT_EQ(token.token, choice->token_ids[at]) << request->id << ", token " << index;
        const float logprob = processed ? token.processed_logprob : token.logprob;
        EXPECT_EQ(FloatBits(logprob), FloatBits((*choice->logprobs)[at].logprob))
            << request->id << ", token " << index;
        ++compared;
      }
    }
    EXPECT_GT(compared, 100);
    EXPECT_EQ(engine->Stats().kv_pages_in_use, 0);
  }
}

// Prefilled in small chunks beside an older request that grows and takes its pages.
TEST(Redraw, SurvivesPreemption) {
  PreparedRequest request = MakeRequest("r", Tokens(4, 70));
  const std::vector<Outcome> alone = RunAlone({request});
  const Choice& choice = alone[0].completion.choices[0];
  EngineOptions tight;
  tight.block_size = 16;
  tight.kv_cache_tokens = 96;
  tight.max_num_batched_tokens = 4;
  const auto engine = MakeCore(tight);
  PreparedRequest older = MakeRequest("older", Tokens(5, 15));
  older.sampling.max_tokens = 40;
  older.handle = 99;
  older.callbacks.on_done = [](const absl::StatusOr<Completion>& done) {
    EXPECT_TRUE(done.ok()) << done.status();
  };
  engine->Add(std::move(older));
  const auto drawn = RunRedraws(*engine, {RedrawOf(request, choice, All(choice))});
  EXPECT_GT(engine->Stats().preemptions, 0);
  ASSERT_EQ(drawn[0].size(), choice.token_ids.size());
  for (const auto& [index, token] : drawn[0]) {
    EXPECT_EQ(token.token, choice.token_ids[static_cast<size_t>(index)]);
  }
}

TEST(Redraw, OnlyWhatIsAskedFor) {
  const std::vector<PreparedRequest> requests = Workload(*LoadTiny());
  const std::vector<Outcome> outcomes = RunAlone(requests);
  const auto engine = MakeCore();
  const auto drawn =
      RunRedraws(*engine, {RedrawOf(requests[0], outcomes[0].completion.choices[0], {2, 3, 11})});
  std::set<int64_t> at;
  for (const auto& [index, token] : drawn[0]) at.insert(index);
  EXPECT_EQ(at, (std::set<int64_t>{2, 3, 11}));
}

// What is checked does not come from the cache, which may be what is wrong, nor goes there.
TEST(Redraw, LeavesThePrefixCacheAlone) {
  const auto engine = MakeCore({.block_size = 16});
  PreparedRequest request = MakeRequest("r", Tokens(3, 100));
  const std::vector<Outcome> first = RunTogether(*engine, {request});
  const int64_t cached = engine->Stats().cached_tokens;
  const Choice& choice = first[0].completion.choices[0];
  RunRedraws(*engine, {RedrawOf(request, choice, All(choice))});
  EXPECT_EQ(engine->Stats().cached_tokens, cached);
  EXPECT_EQ(engine->Stats().prompt_tokens, 100 + 107);
}

TEST(Redraw, RefusesWhatCanNotBe) {
  auto engine = MakeEngine();
  const auto error = [&](Redraw redraw) {
    Request request;
    request.prompt = std::vector<int32_t>{1, 2, 3};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 3;
    request.redraw = std::move(redraw);
    absl::Status ended = absl::UnknownError("not called");
    const auto handle = engine->Submit(
        request, {.on_done = [&](const absl::StatusOr<Completion>& c) { ended = c.status(); }});
    if (!handle.ok()) return std::string(handle.status().message());
    engine->Drain();
    return std::string(ended.message());
  };
  EXPECT_EQ(error({.choice = 0, .output = {5}, .at = {0}}), "");
  EXPECT_THAT(error({.choice = 0, .output = {}, .at = {}}), HasSubstr("no token"));
  EXPECT_THAT(error({.choice = -1, .output = {5}, .at = {}}), HasSubstr("choice must be"));
  EXPECT_THAT(error({.choice = 0, .output = {5, 1 << 20}, .at = {}}), HasSubstr("output token 1"));
  EXPECT_THAT(error({.choice = 0, .output = {5, 6}, .at = {1, 1}}), HasSubstr("ascending"));
  EXPECT_THAT(error({.choice = 0, .output = {5, 6}, .at = {2}}), HasSubstr("below 2"));
  EXPECT_THAT(error({.choice = 0, .output = std::vector<int32_t>(100000, 5), .at = {}}),
              HasSubstr("100002"));
  // Four tokens where at most three can have been drawn.
  EXPECT_THAT(error({.choice = 0, .output = {5, 6, 7, 8}, .at = {3}}),
              HasSubstr("output token 3 comes after the end of the completion, at token 2"));
}

// ---- Audits

// At once, or each when the one before and its audit are done.
EngineStats RunAudited(double share, int requests, int64_t at_once, bool in_turn = false) {
  EngineOptions options;
  options.audit_share = share;
  options.audit_seed = 7;
  options.max_num_seqs = at_once;
  const auto engine = MakeCore(options);
  std::vector<PreparedRequest> all;
  for (int i = 0; i < requests; ++i) {
    PreparedRequest r = MakeRequest(absl::StrCat("r", i), Tokens(static_cast<uint64_t>(i), 3 + i));
    r.sampling.temperature = i % 2;
    r.sampling.repetition_penalty = i % 3 == 0 ? 1.2 : 1;
    r.sampling.logprobs.reset();  // what an audit needs is kept anyway
    r.sampling.n = i % 5 == 0 ? 2 : 1;
    r.seed = static_cast<uint64_t>(i);
    all.push_back(std::move(r));
  }
  if (in_turn) {
    for (const PreparedRequest& r : all) RunTogether(*engine, {r});
  } else {
    RunTogether(*engine, all);
  }
  return engine->Stats();
}

TEST(Audit, FindsNothingOnASoundMachine) {
  const EngineStats together = RunAudited(1, 40, 5);
  EXPECT_GT(together.audits, 0);
  EXPECT_EQ(together.audit_differences, 0) << together.first_audit_difference;
  const EngineStats in_turn = RunAudited(1, 40, 5, true);
  EXPECT_GE(in_turn.audits, 35);
  EXPECT_GT(in_turn.audited_tokens, in_turn.audits * 8);
  EXPECT_EQ(in_turn.audit_differences, 0) << in_turn.first_audit_difference;
}

TEST(Audit, StaysWithinItsShare) {
  for (double share : {0.01, 0.05, 0.3}) {
    const EngineStats stats = RunAudited(share, 120, 8);
    const auto work = static_cast<double>(stats.prompt_tokens + stats.generated_tokens);
    EXPECT_GT(stats.audits, 0) << share;
    EXPECT_LE(static_cast<double>(stats.audited_tokens), share * work) << share;
  }
  EXPECT_EQ(RunAudited(0, 20, 8).audits, 0);
}

TEST(Audit, PicksBySeed) {
  Auditor one(0.1, 1), same(0.1, 1), other(0.1, 2);
  int differ = 0;
  for (int i = 0; i < 200; ++i) {
    const bool picked = one.Note(10);
    EXPECT_EQ(picked, same.Note(10));
    differ += picked != other.Note(10) ? 1 : 0;
  }
  EXPECT_GT(differ, 0);
}

TEST(Audit, NamesTheFirstDifference) {
  Auditor auditor(1, 1);
  ASSERT_TRUE(auditor.Note(1000));
  auditor.Take({.id = "r7",
                .prompt = {1, 2},
                .sampling = {},
                .seed = 0,
                .redraw = {.choice = 1, .output = {5, 6}, .at = {0, 1}},
                .logprobs = {-0.5f, -2.0f}});
  ASSERT_NE(auditor.Next(), nullptr);
  EXPECT_EQ(auditor.Next(), nullptr) << "one at a time";
  auditor.Compare(0, {.token = 5, .logprob = -0.5f});
  auditor.Compare(1, {.token = 6, .logprob = -2.0000002f});
  auditor.Finish(true);
  EXPECT_EQ(auditor.audits(), 1);
  EXPECT_EQ(auditor.differences(), 1);
  EXPECT_EQ(auditor.first_difference(),
            "r7, choice 1, token 1: delivered id 6, logprob -2 (c0000000); again id 6, logprob "
            "-2.0000002 (c0000001)");
}

}  // namespace
}  // namespace isobit
