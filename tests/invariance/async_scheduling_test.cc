// Steps that are issued before the tokens of the one before are known: on a backend that does
// nothing before it is waited for, the bits are those of one step after the other.

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

std::unique_ptr<EngineCore> MakeLateCore(const EngineOptions& options) {
  return MakeCore(options, {}, "late");
}

// Nobody looks at logits: that alone would make every step wait.
std::vector<ScheduledRequest> Unwatched(const std::vector<PreparedRequest>& requests) {
  std::vector<ScheduledRequest> scheduled;
  for (const PreparedRequest& request : requests) {
    scheduled.push_back({.request = request, .record_logits = false});
  }
  return scheduled;
}

std::vector<Outcome> AloneAndUnwatched(const std::vector<PreparedRequest>& requests) {
  std::vector<Outcome> alone = RunAlone(requests, {}, "reference");
  for (Outcome& outcome : alone) outcome.logits.clear();
  return alone;
}

TEST(AsyncScheduling, EveryStepOfPlainDecodingIsIssuedAhead) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 5; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(10 + i, 4 + 7 * i)));
    requests.back().sampling.max_tokens = 20 + 5 * i;
    if (i % 2 == 1) requests.back().sampling.temperature = 0.9;
  }
  const std::vector<Outcome> alone = AloneAndUnwatched(requests);
  const auto engine = MakeLateCore({.max_num_seqs = 8, .block_size = 16});
  EXPECT_EQ(Difference(alone, RunScheduled(*engine, Unwatched(requests))), "");
  // All but the first, and no step for a token that nobody asked for.
  EXPECT_EQ(engine->Stats().steps, 40);
  EXPECT_EQ(engine->Stats().ahead_steps, 39);

  const auto one_by_one =
      MakeLateCore({.max_num_seqs = 8, .block_size = 16, .async_scheduling = false});
  EXPECT_EQ(Difference(alone, RunScheduled(*one_by_one, Unwatched(requests))), "");
  EXPECT_EQ(one_by_one->Stats().ahead_steps, 0);
}

// Sequences end by a token or a text that is seen when the next step is already under way, and
// others take their pages and seats.
TEST(AsyncScheduling, WhatEndsUnexpectedlyLeavesNoTrace) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 24; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(50 + i, 1 + 3 * i)));
    SamplingParams& p = requests.back().sampling;
    p.max_tokens = 40;
    p.temperature = 1.2;
    requests.back().seed = static_cast<uint64_t>(i);
    if (i % 3 == 0) {
      for (int32_t token = 0; token < 40; ++token) p.stop_token_ids.push_back(token);
    } else if (i % 3 == 1) {
      p.stop = {"e", "a", "st"};
    }
    if (i % 4 == 0) p.min_tokens = 3;
    p.n = 1 + i % 2;
  }
  const std::vector<Outcome> alone = AloneAndUnwatched(requests);
  int64_t stopped = 0;
  for (const Outcome& outcome : alone) {
    stopped += outcome.completion.choices[0].finish_reason == FinishReason::kStop;
  }
  EXPECT_GT(stopped, 8);
  for (const bool prefix_cache : {false, true}) {
    const auto engine = MakeLateCore({.max_num_seqs = 6,
                                      .max_num_batched_tokens = 40,
                                      .block_size = 16,
                                      .kv_cache_tokens = 512,
                                      .prefix_cache = prefix_cache});
    EXPECT_EQ(Difference(alone, RunScheduled(*engine, Unwatched(requests),
                                             {.poison_free_pages = !prefix_cache})),
              "");
    EXPECT_GT(engine->Stats().ahead_steps, engine->Stats().steps / 2);
  }
}

// Penalties need the tokens: those steps wait, and only those.
TEST(AsyncScheduling, StepsThatNeedTheTokensWait) {
  std::vector<PreparedRequest> requests = {MakeRequest("penalised", Tokens(1, 20)),
                                           MakeRequest("plain", Tokens(2, 30)),
                                           MakeRequest("scored", Tokens(3, 50))};
  requests[0].sampling.max_tokens = 10;
  requests[0].sampling.frequency_penalty = 0.5;
  requests[0].sampling.repetition_penalty = 1.3;
  requests[1].sampling.max_tokens = 40;
  requests[2].sampling.max_tokens = 5;
  requests[2].sampling.prompt_logprobs = 2;
  const std::vector<Outcome> alone = AloneAndUnwatched(requests);
  const auto engine = MakeLateCore({.max_num_batched_tokens = 32, .block_size = 16});
  EXPECT_EQ(Difference(alone, RunScheduled(*engine, Unwatched(requests))), "");
  EXPECT_GE(engine->Stats().ahead_steps, 25);
  EXPECT_LE(engine->Stats().ahead_steps, 35);
}

TEST(AsyncScheduling, UnderPreemptionAndCancellation) {
  SplitMix random(7);
  int64_t preemptions = 0, ahead_steps = 0;
  for (int round = 0; round < 6; ++round) {
    std::vector<PreparedRequest> requests;
    for (int i = 0; i < 12; ++i) {
      requests.push_back(
          MakeRequest(absl::StrCat("r", i), Tokens(random.Next(), 1 + random.Below(60))));
      SamplingParams& p = requests.back().sampling;
      p.max_tokens = 1 + random.Below(50);
      if (random.Below(2) == 0) p.temperature = 1;
      if (round % 3 == 0 && random.Below(4) == 0) p.presence_penalty = 0.7;
      if (random.Below(8) == 0) p.max_tokens = 0;
    }
    const std::vector<Outcome> alone = AloneAndUnwatched(requests);
    std::vector<ScheduledRequest> scheduled = Unwatched(requests);
    for (ScheduledRequest& r : scheduled) r.arrive_at_step = random.Below(30);
    // One that goes away at some point, beside those that are compared.
    scheduled.push_back({.request = MakeRequest("cancelled", Tokens(random.Next(), 30)),
                         .arrive_at_step = random.Below(10),
                         .cancel_at_step = 10 + random.Below(10),
                         .record_logits = false});
    scheduled.back().request.sampling.max_tokens = 50;
    const auto engine = MakeLateCore(
        {.max_num_seqs = 8, .block_size = 16, .kv_cache_tokens = 256, .prefix_cache = false});
    std::vector<Outcome> got =
        RunScheduled(*engine, std::move(scheduled), {.poison_free_pages = true});
    ASSERT_EQ(got.size(), 13u);
    EXPECT_EQ(got.back().completion.choices[0].finish_reason, FinishReason::kCancelled);
    got.pop_back();
    EXPECT_EQ(Difference(alone, got), "");
    preemptions += engine->Stats().preemptions;
    ahead_steps += engine->Stats().ahead_steps;
  }
  EXPECT_GT(preemptions, 4);
  EXPECT_GT(ahead_steps, 100);
}

// An engine that is left with a step under way writes nowhere afterwards, and its model goes on.
TEST(AsyncScheduling, AStepUnderWayCanBeAbandoned) {
  const std::vector<PreparedRequest> requests = {MakeRequest("a", Tokens(1, 40))};
  const std::vector<Outcome> alone = AloneAndUnwatched(requests);
  auto engine = MakeLateCore({});
  for (int run = 0; run < 3; ++run) {
    PreparedRequest left = MakeRequest("left", Tokens(3, 5));
    left.handle = 99;
    absl::Status ended;
    left.callbacks.on_done = [&](const absl::StatusOr<Completion>& c) { ended = c.status(); };
    engine->Add(std::move(left));
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(engine->Step().ok());
    auto next = EngineCore::Create(EngineCore::TakeModel(std::move(engine)), {});
    EXPECT_TRUE(absl::IsCancelled(ended)) << ended;
    ASSERT_TRUE(next.ok()) << next.status();
    engine = *std::move(next);
    EXPECT_EQ(Difference(alone, RunScheduled(*engine, Unwatched(requests))), "");
  }
}

// Settle() delivers what is under way, and no more.
TEST(AsyncScheduling, SettleLeavesNothingUnderWay) {
  auto engine = MakeLateCore({});
  PreparedRequest request = MakeRequest("r", Tokens(3, 5));
  request.handle = 1;
  int tokens = 0;
  request.callbacks.on_token = [&](const TokenEvent&) { ++tokens; };
  request.callbacks.on_done = [](const absl::StatusOr<Completion>&) {};
  engine->Add(std::move(request));
  ASSERT_TRUE(engine->Step().ok());
  EXPECT_EQ(tokens, 0);
  ASSERT_TRUE(engine->Settle().ok());
  EXPECT_EQ(tokens, 1);
  ASSERT_TRUE(engine->Settle().ok());
  EXPECT_EQ(tokens, 1);
  EXPECT_TRUE(engine->CheckIntegrity().ok());
}

// Audits compute finished requests again, between steps that are issued ahead.
TEST(AsyncScheduling, AuditsFindNothing) {
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("r", i), Tokens(70 + i, 5 + i)));
    requests.back().sampling.max_tokens = 30;
  }
  const std::vector<Outcome> alone = AloneAndUnwatched(requests);
  const auto engine =
      MakeLateCore({.max_num_seqs = 3, .block_size = 16, .audit_share = 0.8, .audit_seed = 1});
  EXPECT_EQ(Difference(alone, RunScheduled(*engine, Unwatched(requests))), "");
  EXPECT_GE(engine->Stats().audits, 2);
  EXPECT_EQ(engine->Stats().audit_differences, 0) << engine->Stats().first_audit_difference;
  EXPECT_GT(engine->Stats().ahead_steps, 30);
}

}  // namespace
}  // namespace isobit
