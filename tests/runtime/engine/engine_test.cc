#include "runtime/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "tests/runtime/engine/engine_backend.h"
#include "tests/tiny_model.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Engine> MakeEngine(const EngineOptions& options = {},
                                   const TinyModelOptions& tiny = {}) {
  auto model = Model::Load(WriteTinyModel(tiny), CreateEngineBackend());
  EXPECT_TRUE(model.ok()) << model.status();
  auto engine = Engine::Create(*std::move(model), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

Request Greedy(std::string text, int64_t max_tokens = 8) {
  Request r;
  r.id = text;
  r.prompt = std::move(text);
  r.sampling.max_tokens = max_tokens;
  r.sampling.temperature = 0;
  r.sampling.ignore_eos = true;
  return r;
}

Completion One(Engine& engine, Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  auto results = engine.Generate(std::move(requests));
  EXPECT_TRUE(results[0].ok()) << results[0].status();
  return *std::move(results[0]);
}

std::string Error(Engine& engine, Request request) {
  const auto handle = engine.Submit(std::move(request), {});
  return handle.ok() ? "no error" : std::string(handle.status().message());
}

TEST(Engine, GeneratesAndRepeatsItself) {
  auto engine = MakeEngine();
  const Completion a = One(*engine, Greedy("hello there", 12));
  const Completion b = One(*engine, Greedy("hello there", 12));
  EXPECT_EQ(a.choices[0].token_ids.size(), 12u);
  EXPECT_EQ(a.choices[0].token_ids, b.choices[0].token_ids);
  EXPECT_EQ(a.digest, b.digest);
  EXPECT_NE(a.digest, One(*engine, Greedy("hello therf", 12)).digest);
  EXPECT_FALSE(a.seed.has_value());
  EXPECT_TRUE(engine->CheckIntegrity().ok());
}

TEST(Engine, ManyTogetherEqualOneByOne) {
  auto engine = MakeEngine();
  std::vector<Request> requests;
  for (int i = 0; i < 24; ++i) {
    Request r = Greedy(std::string(static_cast<size_t>(1 + i * 5), static_cast<char>('a' + i)), 6);
    if (i % 2) {
      r.sampling.temperature = 0.9;
      r.sampling.seed = static_cast<uint64_t>(i);
      r.sampling.top_k = i % 3 ? 20 : 0;
    }
    requests.push_back(r);
  }
  std::vector<Digest> alone;
  for (const Request& r : requests) alone.push_back(One(*engine, r).digest);
  const auto together = engine->Generate(requests);
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(together[i]->digest, alone[i]) << i;
}

TEST(Engine, DecodedEqualsScored) {
  auto engine = MakeEngine({.prefix_cache = false});
  Request r = Greedy("score me", 40);
  r.sampling.logprobs = 3;
  const Completion decoded = One(*engine, r);
  Request score;
  std::vector<int32_t> ids = decoded.prompt_token_ids;
  const auto& out = decoded.choices[0].token_ids;
  ids.insert(ids.end(), out.begin(), out.end());
  score.prompt = ids;
  score.sampling.max_tokens = 0;
  score.sampling.temperature = 0;
  score.sampling.prompt_logprobs = 3;
  const Completion scored = One(*engine, score);
  EXPECT_TRUE(scored.choices[0].token_ids.empty());
  ASSERT_EQ(scored.prompt_logprobs->size(), ids.size());
  EXPECT_EQ((*scored.prompt_logprobs)[0].token_id, -1);
  for (size_t i = 0; i < out.size(); ++i) {
    const TokenLogProbs& a = (*decoded.choices[0].logprobs)[i];
    const TokenLogProbs& b = (*scored.prompt_logprobs)[decoded.prompt_token_ids.size() + i];
    EXPECT_EQ(a.token_id, b.token_id);
    EXPECT_EQ(a.logprob, b.logprob) << i;
    ASSERT_EQ(a.top.size(), 3u);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(a.top[k].token, b.top[k].token);
      EXPECT_EQ(a.top[k].logprob, b.top[k].logprob);
    }
  }
}

TEST(Engine, PrefixCacheHitsAndChangesNothing) {
  auto engine = MakeEngine({.block_size = 16});
  const std::string text(100, 'x');
  const Completion cold = One(*engine, Greedy(text));
  const Completion warm = One(*engine, Greedy(text));
  EXPECT_EQ(cold.cached_tokens, 0);
  EXPECT_EQ(warm.cached_tokens, 96);
  EXPECT_EQ(warm.digest, cold.digest);
  // A prompt that is cached to its last token: one is left to compute.
  const Completion full = One(*engine, Greedy(text.substr(0, 96)));
  EXPECT_EQ(full.cached_tokens, 80);
  EXPECT_EQ(full.digest,
            One(*MakeEngine({.block_size = 16, .prefix_cache = false}), Greedy(text.substr(0, 96)))
                .digest);
}

TEST(Engine, PreemptionLosesNothing) {
  std::vector<Request> requests;
  for (int i = 0; i < 8; ++i) {
    Request r = Greedy(std::string(static_cast<size_t>(10 + i), 'p'), 50);
    r.sampling.logprobs = 1;
    r.sampling.prompt_logprobs = 0;
    requests.push_back(r);
  }
  auto large = MakeEngine();
  const auto expected = large->Generate(requests);
  EXPECT_EQ(large->Stats().preemptions, 0);
  auto small = MakeEngine({.block_size = 16, .kv_cache_tokens = 160});
  const auto got = small->Generate(requests);
  EXPECT_GT(small->Stats().preemptions, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(got[i]->digest, expected[i]->digest);
    ASSERT_EQ(got[i]->prompt_logprobs->size(), expected[i]->prompt_logprobs->size());
    for (size_t k = 0; k < got[i]->prompt_logprobs->size(); ++k) {
      EXPECT_EQ((*got[i]->prompt_logprobs)[k].logprob, (*expected[i]->prompt_logprobs)[k].logprob);
    }
  }
  EXPECT_TRUE(small->CheckIntegrity().ok());
  EXPECT_EQ(small->Stats().kv_pages_in_use, 0);
}

TEST(Engine, SeveralChoicesAreWhatSingleOnesWouldBe) {
  auto engine = MakeEngine();
  Request r = Greedy("choices", 10);
  r.sampling.temperature = 1;
  r.sampling.seed = 5;
  r.sampling.n = 4;
  const Completion many = One(*engine, r);
  ASSERT_EQ(many.choices.size(), 4u);
  EXPECT_NE(many.choices[0].token_ids, many.choices[1].token_ids);
  r.sampling.n = 1;
  EXPECT_EQ(One(*engine, r).choices[0].digest, many.choices[0].digest);
  EXPECT_EQ(many.seed, 5u);
}

TEST(Engine, ADrawnSeedIsReturnedAndRepeats) {
  auto engine = MakeEngine();
  Request r = Greedy("seed", 10);
  r.sampling.temperature = 1;
  const Completion drawn = One(*engine, r);
  ASSERT_TRUE(drawn.seed.has_value());
  r.sampling.seed = drawn.seed;
  EXPECT_EQ(One(*engine, r).digest, drawn.digest);
}

TEST(Engine, AskingForLogProbsChangesNothing) {
  auto engine = MakeEngine();
  Request r = Greedy("quiet", 10);
  r.sampling.temperature = 0.8;
  r.sampling.seed = 3;
  const Completion plain = One(*engine, r);
  for (LogProbsMode mode : {LogProbsMode::kRaw, LogProbsMode::kProcessed}) {
    r.sampling.logprobs = 5;
    r.sampling.prompt_logprobs = 2;
    r.sampling.logprobs_mode = mode;
    EXPECT_EQ(One(*engine, r).digest, plain.digest);
  }
}

TEST(Engine, StopsAtTextIdsAndLengths) {
  auto engine = MakeEngine();
  const Completion whole = One(*engine, Greedy("stop", 30));
  const std::string& text = whole.choices[0].text;
  ASSERT_GT(text.size(), 6u);
  // Any piece of the output, as stop string: the text ends where it first occurs.
  Request r = Greedy("stop", 30);
  r.sampling.stop = {text.substr(4, 2)};
  const Completion stopped = One(*engine, r);
  EXPECT_EQ(stopped.choices[0].finish_reason, FinishReason::kStop);
  EXPECT_EQ(stopped.choices[0].text, text.substr(0, text.find(text.substr(4, 2))));
  EXPECT_LT(stopped.choices[0].token_ids.size(), 30u);

  r = Greedy("stop", 30);
  r.sampling.stop_token_ids = {whole.choices[0].token_ids[5]};
  const Completion by_id = One(*engine, r);
  EXPECT_EQ(by_id.choices[0].finish_reason, FinishReason::kStop);
  EXPECT_EQ(by_id.choices[0].token_ids.back(), whole.choices[0].token_ids[5]);
  r.sampling.min_tokens = 20;
  const Completion later = One(*engine, r);
  EXPECT_GE(later.choices[0].token_ids.size(), 20u);

  auto tight = MakeEngine({.max_model_len = 20});
  const Completion cut = One(*tight, Greedy("0123456789", 20));
  EXPECT_EQ(cut.choices[0].finish_reason, FinishReason::kLength);
  EXPECT_EQ(cut.choices[0].token_ids.size(), 10u);
}

TEST(Engine, EndOfSequenceEndsUnlessIgnored) {
  auto engine = MakeEngine();
  Request r = Greedy("eos", 30);
  r.sampling.ignore_eos = false;
  r.sampling.logit_bias = {{kTinyEos, 100.0}};
  const Completion ended = One(*engine, r);
  EXPECT_EQ(ended.choices[0].finish_reason, FinishReason::kStop);
  EXPECT_EQ(ended.choices[0].token_ids, std::vector<int32_t>{kTinyEos});
  EXPECT_EQ(ended.choices[0].text, "");
  r.sampling.ignore_eos = true;
  EXPECT_EQ(One(*engine, r).choices[0].token_ids.size(), 30u);
}

TEST(Engine, TokensArriveInOrderAndAddUpToTheText) {
  auto engine = MakeEngine();
  Request r = Greedy("stream", 25);
  r.sampling.temperature = 1.5;
  r.sampling.seed = 1;
  r.sampling.n = 2;
  r.sampling.logprobs = 0;
  std::map<int, std::string> text;
  std::map<int, std::vector<int32_t>> ids;
  std::promise<Completion> promise;
  ASSERT_TRUE(engine
                  ->Submit(r, {.on_token =
                                   [&](const TokenEvent& e) {
                                     text[e.choice] += e.text;
                                     ids[e.choice].push_back(e.token_id);
                                     ASSERT_NE(e.logprobs, nullptr);
                                     EXPECT_EQ(e.logprobs->token_id, e.token_id);
                                   },
                               .on_done = [&](auto c) { promise.set_value(*std::move(c)); }})
                  .ok());
  const Completion c = promise.get_future().get();
  for (const Choice& choice : c.choices) {
    EXPECT_EQ(text[choice.index], choice.text);
    EXPECT_EQ(ids[choice.index], choice.token_ids);
  }
}

TEST(Engine, ATextBeginsWithBosButAConversationIsItsTemplates) {
  auto engine = MakeEngine({}, {.add_bos = true});
  EXPECT_EQ(One(*engine, Greedy("a")).prompt_token_ids, (std::vector<int32_t>{kTinyEos, 'a'}));
  Request request = Greedy("chat");
  request.prompt = std::vector<ChatMessage>{{"user", "a"}};
  const std::vector<int32_t> ids = One(*engine, std::move(request)).prompt_token_ids;
  EXPECT_EQ(ids, engine->model()
                     .tokenizer()
                     .Encode("<|im_start|>user\na<|im_end|><|im_start|>", {.add_special = false})
                     .value());
}

TEST(Engine, PauseHoldsAndResumeGoesOn) {
  auto engine = MakeEngine();
  const Completion expected = One(*engine, Greedy("to be continued", 6));
  engine->Pause();
  std::promise<Completion> done;
  std::atomic<bool> finished = false;
  auto on_done = [&](absl::StatusOr<Completion> completion) {
    finished = true;
    done.set_value(*std::move(completion));
  };
  const int64_t steps = engine->Stats().steps;
  ASSERT_TRUE(engine->Submit(Greedy("to be continued", 6), {.on_done = on_done}).ok());
  ASSERT_TRUE(engine->CheckIntegrity().ok());  // the engine's thread has seen the request
  EXPECT_TRUE(engine->Stats().paused);
  EXPECT_EQ(engine->Stats().waiting, 1);
  EXPECT_EQ(engine->Stats().steps, steps);
  EXPECT_FALSE(finished);
  engine->Resume();
  EXPECT_EQ(done.get_future().get().digest, expected.digest);
  EXPECT_FALSE(engine->Stats().paused);
}

TEST(Engine, FlushForgetsPrefixes) {
  auto engine = MakeEngine({.block_size = 16});
  const std::string text(100, 'x');
  One(*engine, Greedy(text));
  EXPECT_GT(One(*engine, Greedy(text)).cached_tokens, 0);
  engine->FlushPrefixCache();
  EXPECT_EQ(engine->Stats().kv_pages_cached, 0);
  EXPECT_EQ(One(*engine, Greedy(text)).cached_tokens, 0);
}

std::unique_ptr<Model> LoadTiny(const TinyModelOptions& tiny) {
  auto model = Model::Load(WriteTinyModel(tiny), CreateEngineBackend());
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Case 21 of the field: no state of the old weights survives. What is asked before runs on the old
// ones to its end, what is asked after on the new ones.
TEST(Engine, ReplacedWeightsStartAfresh) {
  const std::string text(100, 'x');
  auto fresh = MakeEngine({.block_size = 16}, {.seed = 2});
  const Completion expected_new = One(*fresh, Greedy(text));
  auto engine = MakeEngine({.max_num_seqs = 2, .block_size = 16}, {.seed = 1});
  const Completion expected_old = One(*engine, Greedy(text));
  ASSERT_NE(expected_old.model_digest, expected_new.model_digest);
  ASSERT_NE(expected_old.digest, expected_new.digest);

  std::mutex mutex;
  std::vector<Completion> before;
  auto keep = [&](absl::StatusOr<Completion> completion) {
    std::lock_guard lock(mutex);
    before.push_back(*std::move(completion));
  };
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(engine->Submit(Greedy(text), {.on_done = keep}).ok());
  }
  const int64_t tokens = engine->Stats().generated_tokens;
  const std::shared_ptr<const Model> old_model = engine->shared_model();
  ASSERT_TRUE(engine->ReplaceModel(LoadTiny({.seed = 2})).ok());
  {
    std::lock_guard lock(mutex);
    ASSERT_EQ(before.size(), 6u);
    for (const Completion& c : before) EXPECT_EQ(c.digest, expected_old.digest);
  }
  EXPECT_EQ(engine->model().digest(), expected_new.model_digest);
  EXPECT_EQ(old_model->digest(), expected_old.model_digest);
  EXPECT_GE(engine->Stats().generated_tokens, tokens) << "counts go on";
  const Completion after = One(*engine, Greedy(text));
  EXPECT_EQ(after.cached_tokens, 0);
  EXPECT_EQ(after.digest, expected_new.digest);
  EXPECT_EQ(after.model_digest, expected_new.model_digest);
  EXPECT_TRUE(engine->CheckIntegrity().ok());
}

TEST(Engine, ReplacingWeightsUnderLoadMixesNothing) {
  auto fresh = MakeEngine({}, {.seed = 2});
  const Digest expected_new = One(*fresh, Greedy("some text")).digest;
  auto engine = MakeEngine({.max_num_seqs = 2}, {.seed = 1});
  const Digest expected_old = One(*engine, Greedy("some text")).digest;
  const Digest old_model = engine->model().digest();
  std::atomic<bool> stop = false;
  std::atomic<int> wrong = 0, old_ones = 0, new_ones = 0;
  std::vector<std::thread> clients;
  for (int t = 0; t < 3; ++t) {
    clients.emplace_back([&] {
      while (!stop) {
        const Completion c = One(*engine, Greedy("some text"));
        const bool old = c.model_digest == old_model;
        ++(old ? old_ones : new_ones);
        wrong += c.digest != (old ? expected_old : expected_new);
      }
    });
  }
  while (old_ones < 3) std::this_thread::yield();
  for (const uint64_t seed : {2, 1, 2}) {
    ASSERT_TRUE(engine->ReplaceModel(LoadTiny({.seed = seed})).ok());
  }
  while (new_ones < 3) std::this_thread::yield();
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Engine, ReplacementsThatCannotBeAreNamed) {
  auto engine = MakeEngine();
  const Digest digest = engine->model().digest();
  EXPECT_THAT(std::string(engine->ReplaceModel(LoadTiny({.layers = 1})).message()),
              HasSubstr("not of the same shape"));
  EXPECT_THAT(std::string(engine->ReplaceModel(LoadTiny({.add_bos = true})).message()),
              HasSubstr("tokenizer"));
  engine->Pause();
  const auto handle = engine->Submit(Greedy("waits"), {});
  ASSERT_TRUE(handle.ok());
  EXPECT_THAT(std::string(engine->ReplaceModel(LoadTiny({.seed = 2})).message()),
              HasSubstr("paused"));
  EXPECT_EQ(engine->model().digest(), digest);
  engine->Cancel(*handle);
  EXPECT_TRUE(engine->ReplaceModel(LoadTiny({.seed = 2})).ok()) << "paused, but nothing waits";
  EXPECT_NE(engine->model().digest(), digest);
  engine->Resume();
  EXPECT_EQ(One(*engine, Greedy("goes on")).model_digest, engine->model().digest());
}

TEST(Engine, CancelKeepsWhatWasDrawn) {
  auto engine = MakeEngine();
  std::promise<Completion> promise;
  std::atomic<int> drawn = 0;
  const auto handle = engine->Submit(
      Greedy("cancel", 3000), {.on_token = [&](const TokenEvent&) { ++drawn; },
                               .on_done = [&](auto c) { promise.set_value(*std::move(c)); }});
  ASSERT_TRUE(handle.ok());
  while (drawn < 3) std::this_thread::yield();
  engine->Cancel(*handle);
  engine->Cancel(*handle);
  const Completion c = promise.get_future().get();
  EXPECT_EQ(c.choices[0].finish_reason, FinishReason::kCancelled);
  EXPECT_GE(c.choices[0].token_ids.size(), 3u);
  EXPECT_LT(c.choices[0].token_ids.size(), 3000u);
  engine->Drain();
  EXPECT_EQ(engine->Stats().kv_pages_in_use, 0);
  EXPECT_TRUE(engine->CheckIntegrity().ok());
}

TEST(Engine, ShutDownAnswersEverybody) {
  int answered = 0;
  {
    auto engine = MakeEngine();
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(
          engine->Submit(Greedy("late", 3000), {.on_done = [&](auto c) { answered += !c.ok(); }})
              .ok());
    }
  }
  EXPECT_EQ(answered, 5);
}

TEST(Engine, ManyThreadsSubmit) {
  auto engine = MakeEngine({.max_num_seqs = 7});
  const Digest expected = One(*engine, Greedy("thread", 10)).digest;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) wrong += One(*engine, Greedy("thread", 10)).digest != expected;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Engine, BadRequestsAreNamed) {
  auto engine = MakeEngine({.max_model_len = 64, .block_size = 16, .kv_cache_tokens = 48});
  Request r = Greedy("x");
  r.sampling.temperature = -1;
  EXPECT_EQ(Error(*engine, r), "temperature must be >= 0, got -1");
  r = Greedy("x");
  r.sampling.temperature = std::nan("");
  EXPECT_THAT(Error(*engine, r), HasSubstr("temperature"));
  r = Greedy("x");
  r.sampling.n = 0;
  EXPECT_THAT(Error(*engine, r), HasSubstr("n must be in"));
  r = Greedy("x", 65);
  EXPECT_THAT(Error(*engine, r), HasSubstr("max_tokens must be <= 64"));
  EXPECT_THAT(Error(*engine, Greedy(std::string(64, 'y'))),
              HasSubstr("prompt has 64 tokens, the limit is 63"));
  EXPECT_THAT(Error(*engine, Greedy(std::string(40, 'y'), 20)), HasSubstr("the pool has 48"));
  EXPECT_THAT(Error(*engine, Greedy("")), HasSubstr("prompt must hold at least one token"));
  EXPECT_THAT(Error(*engine, Greedy("a\xff")), HasSubstr("prompt"));
  r = Greedy("x");
  r.prompt = std::vector<int32_t>{1, 1000};
  EXPECT_THAT(Error(*engine, r), HasSubstr("prompt_token_ids[1] must be in [0, 267), got 1000"));
  r = Greedy("x");
  r.sampling.logit_bias = {{1000, 1.0}};
  EXPECT_THAT(Error(*engine, r), HasSubstr("logit_bias"));
  EXPECT_TRUE(One(*engine, Greedy("still fine", 3)).choices.size() == 1);
}

TEST(Engine, BadOptionsAreNamed) {
  auto error = [](const EngineOptions& options) {
    auto model = Model::Load(WriteTinyModel(), CreateEngineBackend());
    EXPECT_TRUE(model.ok()) << model.status();
    const auto engine = Engine::Create(*std::move(model), options);
    return engine.ok() ? "no error" : std::string(engine.status().message());
  };
  EXPECT_THAT(error({.max_model_len = 5000}),
              HasSubstr("max-model-len must be in [1, 4096], got 5000"));
  EXPECT_THAT(error({.max_num_seqs = -1}), HasSubstr("max-num-seqs"));
  EXPECT_THAT(error({.max_num_batched_tokens = -5}), HasSubstr("max-num-batched-tokens"));
  EXPECT_THAT(error({.block_size = 24}), HasSubstr("block-size must be a multiple of 16, got 24"));
  EXPECT_THAT(error({.kv_cache_tokens = 8}), HasSubstr("kv-cache-tokens"));
  EXPECT_THAT(error({.kv_cache_tokens = int64_t{1} << 39}), HasSubstr("does not fit"));
}

}  // namespace
}  // namespace isobit
