// Requests from many threads at once, with cancellations, requests made in callbacks, and somebody
// who keeps asking how it goes. Made for the thread sanitizer too.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

constexpr int kKinds = 8;

PreparedRequest Kind(int kind) {
  PreparedRequest r = MakeRequest(absl::StrCat("kind ", kind), Tokens(10 + kind, 1 + 17 * kind));
  r.sampling.temperature = kind % 2 == 0 ? 0 : 0.8;
  r.sampling.max_tokens = 4 + kind;
  r.seed = 5;
  return r;
}

std::vector<Digest> AloneDigests() {
  std::vector<PreparedRequest> requests;
  for (int kind = 0; kind < kKinds; ++kind) requests.push_back(Kind(kind));
  std::vector<Digest> digests;
  for (const Outcome& outcome : RunAlone(requests)) digests.push_back(outcome.completion.digest);
  return digests;
}

TEST(EngineThreads, RandomArrivalsAndCancellations) {
  const std::vector<Digest> expected = AloneDigests();
  // Few pages: preemption and eviction go on behind it all.
  const auto engine = MakeEngine(
      {.max_num_seqs = 6, .max_num_batched_tokens = 40, .block_size = 16, .kv_cache_tokens = 400});
  std::atomic<int> wrong = 0, equal = 0, cancelled = 0;
  std::atomic<bool> stop = false;
  const auto done = [&](int kind) {
    return [&, kind](const absl::StatusOr<Completion>& completion) {
      if (!completion.ok()) {
        ++wrong;
      } else if (completion->choices[0].finish_reason == FinishReason::kCancelled) {
        ++cancelled;
      } else {
        ++(completion->digest == expected[static_cast<size_t>(kind)] ? equal : wrong);
      }
    };
  };

  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      SplitMix random(t);
      for (int i = 0; i < 15; ++i) {
        const auto kind = static_cast<int>(random.Below(kKinds));
        const auto handle = engine->Submit(AsRequest(Kind(kind)), {.on_done = done(kind)});
        if (!handle.ok()) ++wrong;
        if (handle.ok() && random.Below(4) == 0) engine->Cancel(*handle);
        if (random.Below(3) == 0) std::this_thread::yield();
      }
    });
  }
  std::thread observer([&] {
    while (!stop) {
      const EngineStats stats = engine->Stats();
      if (stats.kv_pages_in_use > stats.kv_pages || !engine->CheckIntegrity().ok()) ++wrong;
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  engine->Drain();
  stop = true;
  observer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(equal + cancelled, 60);
  EXPECT_GT(equal, 20);
  EXPECT_EQ(engine->Stats().kv_pages_in_use, 0);
}

// A chain of requests, each made and one cancelled in the callback of the one before.
TEST(EngineThreads, RequestsFromCallbacks) {
  const std::vector<Digest> expected = AloneDigests();
  const auto engine = MakeEngine({.max_num_seqs = 4});
  std::atomic<int> equal = 0;
  std::promise<void> finished;
  std::function<void(int)> next = [&](int kind) {
    if (kind == kKinds) return finished.set_value();
    auto submitted = engine->Submit(
        AsRequest(Kind(kind)), {.on_token =
                                    [&, first = true](const TokenEvent&) mutable {
                                      if (!std::exchange(first, false)) return;
                                      // A neighbour that is gone as soon as it is there.
                                      const auto neighbour = engine->Submit(AsRequest(Kind(7)), {});
                                      if (neighbour.ok()) engine->Cancel(*neighbour);
                                    },
                                .on_done =
                                    [&, kind](const absl::StatusOr<Completion>& completion) {
                                      equal +=
                                          completion.ok() &&
                                          completion->digest == expected[static_cast<size_t>(kind)];
                                      next(kind + 1);
                                    }});
    ASSERT_TRUE(submitted.ok()) << submitted.status();
  };
  next(0);
  finished.get_future().wait();
  engine->Drain();
  EXPECT_EQ(equal, kKinds);
}

// Engines on backends of their own know nothing of each other.
TEST(EngineThreads, TwoEnginesAtOnce) {
  const std::vector<Digest> expected = AloneDigests();
  std::atomic<int> equal = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      const auto engine = MakeEngine();
      std::vector<Request> requests;
      for (int kind = 0; kind < kKinds; ++kind) requests.push_back(AsRequest(Kind(kind)));
      const auto completions = engine->Generate(requests);
      for (size_t i = 0; i < completions.size(); ++i) {
        equal += completions[i].ok() && completions[i]->digest == expected[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 2 * kKinds);
}

}  // namespace
}  // namespace isobit
