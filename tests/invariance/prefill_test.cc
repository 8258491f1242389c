// A prompt however it is prefilled: cases 4, 5, 7, 22 and 26 from the field.

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "invariance/workload.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

// Case 4: whole, and in chunks of 1, 7, 64, 128, 2048 and larger than itself.
TEST(Prefill, Case4Chunks) {
  std::vector<PreparedRequest> requests = {MakeRequest("prompt of 200", Tokens(1, 200)),
                                           MakeRequest("prompt of 1300", Tokens(2, 1300))};
  for (PreparedRequest& r : requests) r.sampling.prompt_logprobs = 0;
  const std::vector<Outcome> whole = RunAlone(requests);
  for (int64_t chunk : {1, 7, 64, 128, 2048, 4096}) {
    const auto engine = MakeCore({.max_num_batched_tokens = chunk, .prefix_cache = false});
    EXPECT_EQ(Difference(whole, RunTogether(*engine, requests)), "") << chunk;
    EXPECT_GE(engine->Stats().steps, 1500 / chunk);
  }
}

// Case 5: cold, warm and partly warm; twelve chained prefixes; a prompt that is cached as a whole,
// of which one token is left to prefill.
TEST(Prefill, Case5PrefixCache) {
  const std::vector<int32_t> all = Tokens(3, 12 * 16);
  std::vector<PreparedRequest> requests;
  for (size_t i = 1; i <= 12; ++i) {
    requests.push_back(
        MakeRequest(absl::StrCat("prefix ", i), {all.begin(), all.begin() + 16 * i}));
  }
  const std::vector<Outcome> cold = RunAlone(requests);
  const auto engine = MakeCore({.block_size = 16});
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const Outcome got = RunScheduled(*engine, {{.request = requests[i]}})[0];
      EXPECT_EQ(Difference(cold[i], got), "") << "round " << round << ", prefix " << i;
      // Partly warm in the first round; the whole prompt in the second, of which the last page has
      // to be computed again for the token after it.
      EXPECT_EQ(got.completion.cached_tokens, static_cast<int64_t>(16 * i));
    }
  }
  EXPECT_EQ(engine->Stats().kv_pages_in_use, 0);
}

TEST(Prefill, Case5OneTokenLeft) {
  const PreparedRequest request = MakeRequest("65 tokens", Tokens(4, 65));
  const std::vector<Outcome> cold = RunAlone({request});
  const auto engine = MakeCore({.block_size = 16});
  RunScheduled(*engine, {{.request = request}});
  const int64_t before = engine->Stats().prompt_tokens;
  const Outcome warm = RunScheduled(*engine, {{.request = request}})[0];
  EXPECT_EQ(Difference(cold[0], warm), "");
  EXPECT_EQ(warm.completion.cached_tokens, 64);
  EXPECT_EQ(engine->Stats().prompt_tokens - before, 1);
}

// A prompt that shares pages with another which is still being prefilled or decoded.
TEST(Prefill, Case5SharedWhileRunning) {
  const std::vector<int32_t> all = Tokens(5, 100);
  std::vector<PreparedRequest> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(MakeRequest(absl::StrCat("shared ", i), {all.begin(), all.end() - i * 7}));
  }
  const std::vector<Outcome> alone = RunAlone(requests);
  const auto engine = MakeCore({.max_num_batched_tokens = 24, .block_size = 16});
  std::vector<ScheduledRequest> scheduled;
  for (size_t i = 0; i < requests.size(); ++i) {
    scheduled.push_back({.request = requests[i], .arrive_at_step = static_cast<int64_t>(2 * i)});
  }
  EXPECT_EQ(Difference(alone, RunScheduled(*engine, scheduled)), "");
  EXPECT_GT(engine->Stats().cached_tokens, 0);
}

// Case 7: what was decoded in 250 steps, scored in one prefill: exactly zero difference.
TEST(Prefill, Case7ScoredEqualsDecoded) {
  for (double temperature : {0.0, 1.0}) {
    PreparedRequest request = MakeRequest("decoded", Tokens(6, 37));
    request.sampling.max_tokens = 250;
    request.sampling.temperature = temperature;
    request.sampling.logprobs = 5;
    request.seed = 8;
    const auto engine = MakeCore({.max_num_batched_tokens = 4096, .prefix_cache = false});
    const Outcome decoded = RunScheduled(*engine, {{.request = request}})[0];
    const int64_t steps = engine->Stats().steps;
    const Outcome scored =
        RunScheduled(*engine, {{.request = MakeScoring(request, decoded, 0)}})[0];
    EXPECT_EQ(engine->Stats().steps, steps + 1);
    Comparison comparison;
    CompareDecodedWithScored(decoded, 0, scored, &comparison);
    EXPECT_EQ(comparison.Describe(), "");
    EXPECT_GE(comparison.compared(), 250 * kTinyVocab);
  }
}

// Case 22: ids in, ids out. Ids that a tokenizer would never give for their text stay what they
// are, also when an output goes back in as a prompt.
TEST(Prefill, Case22IdsAreNeverTokenizedAgain) {
  const auto engine = MakeEngine();
  const Tokenizer& tokenizer = engine->model().tokenizer();
  const auto merged = tokenizer.Encode("the");
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->size(), 1u);
  const std::vector<int32_t> letters = {'t', 'h', 'e'};  // the token of a byte has its value as id
  Request request = AsRequest(MakeRequest("letters", letters));
  const auto first = engine->Generate({request});
  ASSERT_TRUE(first[0].ok());
  EXPECT_EQ(first[0]->prompt_token_ids, letters);
  request.prompt = *merged;
  EXPECT_NE(engine->Generate({request})[0]->digest, first[0]->digest);

  // Any output, valid text or not, back in as ids.
  request.prompt = Tokens(7, 5);
  request.sampling.temperature = 1.5;
  for (int turn = 0; turn < 5; ++turn) {
    request.sampling.seed = static_cast<uint64_t>(turn);
    const auto completion = engine->Generate({request});
    ASSERT_TRUE(completion[0].ok());
    const std::vector<int32_t> sent = std::get<std::vector<int32_t>>(request.prompt);
    EXPECT_EQ(completion[0]->prompt_token_ids, sent);
    std::vector<int32_t> next = sent;
    const auto& out = completion[0]->choices[0].token_ids;
    next.insert(next.end(), out.begin(), out.end());
    request.prompt = next;
  }
}

// Case 26: prompts of every length from 1 to 66, together in one step; the last real row counts.
TEST(Prefill, Case26EveryLength) {
  std::vector<PreparedRequest> requests;
  for (int length = 1; length <= 66; ++length) {
    requests.push_back(MakeRequest(absl::StrCat("length ", length), Tokens(40 + length, length)));
    requests.back().sampling.max_tokens = 2;
  }
  const std::vector<Outcome> alone = RunAlone(requests);
  const auto engine =
      MakeCore({.max_num_seqs = 66, .max_num_batched_tokens = 4096, .prefix_cache = false});
  EXPECT_EQ(Difference(alone, RunTogether(*engine, requests)), "");
  EXPECT_EQ(engine->Stats().steps, 2);
}

}  // namespace
}  // namespace isobit
