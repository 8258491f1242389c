// Many streams at once: each is, to the bit, what it is alone.

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "invariance/random.h"
#include "tests/runtime/server/server_fixture.h"
#include "tests/runtime/server/streamed_answer.h"

namespace isobit {
namespace {

using json = nlohmann::json;

class StreamsTest : public ServerTest {};

// Requests of many kinds; a kind is always the same request.
json Kind(int kind) {
  json body = {{"prompt", absl::StrCat("story number ", kind,
                                       std::string(static_cast<size_t>(kind % 40), '.'))},
               {"max_tokens", 4 + kind % 23},
               {"temperature", kind % 3 == 0 ? 0.0 : 0.9},
               {"ignore_eos", true},
               {"stream", true},
               {"return_token_ids", true}};
  if (kind % 3 != 0) body["seed"] = kind;
  if (kind % 4 == 0) body["logprobs"] = kind % 5;
  if (kind % 7 == 0) body["n"] = 2;
  return body;
}

TEST_F(StreamsTest, EachIsWhatItIsAlone) {
  constexpr int kKinds = 60, kStreams = 400;
  // Alone: one at a time.
  StartServer();
  std::vector<StreamedAnswer> alone;
  ASSERT_NO_FATAL_FAILURE(AskEachAlone(port_, Kind, kKinds, alone));
  server_.reset();
  // Together, with few pages: preemption and eviction go on behind it all.
  StartServer(
      {},
      {.max_num_seqs = 24, .max_num_batched_tokens = 64, .block_size = 16, .kv_cache_tokens = 400});
  std::vector<HttpClient> clients;
  ASSERT_NO_FATAL_FAILURE(SendAll(port_, Kind, kKinds, kStreams, clients));
  // Some go away in the middle.
  int compared = 0;
  for (int i = 0; i < kStreams; ++i) {
    if (i % 10 == 9) {
      clients[static_cast<size_t>(i)].Reset();
      continue;
    }
    const HttpReply reply = clients[static_cast<size_t>(i)].ReadReply();
    ASSERT_EQ(reply.status, 200) << reply.body;
    const StreamedAnswer streamed = ReadStreamedAnswer(reply);
    EXPECT_TRUE(streamed == alone[static_cast<size_t>(i % kKinds)]) << i;
    ++compared;
  }
  EXPECT_EQ(compared, kStreams / 10 * 9);
  EXPECT_GT(engine_->Stats().preemptions, 0);
  EXPECT_TRUE(EngineBecomesIdle());
  EXPECT_TRUE(engine_->CheckIntegrity().ok());
}

// From several threads, on connections that are kept, with everything mixed.
TEST_F(StreamsTest, KeptConnectionsAndAllEndpointsAtOnce) {
  constexpr int kKinds = 12;
  StartServer({}, {.max_num_seqs = 8});
  std::vector<StreamedAnswer> alone;
  ASSERT_NO_FATAL_FAILURE(AskEachAlone(port_, Kind, kKinds, alone));
  std::atomic<int> wrong = 0, right = 0;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      SplitMix random(t);
      HttpClient client(port_);
      for (int i = 0; i < 20; ++i) {
        const auto kind = static_cast<int>(random.Below(kKinds));
        json body = Kind(kind);
        const std::string& digest = alone[static_cast<size_t>(kind)].digest;
        switch (random.Below(4)) {
          case 0:
            client.Send(RequestText("GET", "/metrics"));
            wrong += client.ReadReply().status != 200;
            break;
          case 1:
            client.Send(RequestText("POST", "/tokenize", R"({"prompt":"abc"})"));
            wrong += client.ReadReply().Json()["count"] != 3;
            break;
          case 2:
            body["stream"] = false;
            client.Send(RequestText("POST", "/v1/completions", body.dump()));
            ++(client.ReadReply().Json()["digest"] == digest ? right : wrong);
            break;
          default:
            client.Send(RequestText("POST", "/v1/completions", body.dump()));
            ++(ReadStreamedAnswer(client.ReadReply()).digest == digest ? right : wrong);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 20);
}

}  // namespace
}  // namespace isobit
