// A thousand streams at once on the real model: none is lost, none is mixed up, memory is bounded.
// Prints what it took.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "kernels/backends.h"
#include "tests/model_path.h"
#include "tests/runtime/server/server_fixture.h"
#include "tests/runtime/server/streamed_answer.h"

namespace isobit {
namespace {

using json = nlohmann::json;

class LoadTest : public ServerTest {};

constexpr int kStreams = 1000;
constexpr int kKinds = 50;  // different requests; each stands twenty times among the others

json Kind(int kind) {
  static const char* const kPrompts[] = {"The capital of France is", "Once upon a time",
                                         "def fibonacci(n):", "\u4f60\u597d",
                                         "The three primary colours are"};
  json body = {{"prompt", absl::StrCat(kPrompts[kind % 5], " ", kind)},
               {"max_tokens", 3 + kind % 4},
               {"temperature", kind % 2 == 0 ? 0.0 : 1.0},
               {"ignore_eos", true},
               {"stream", true},
               {"return_token_ids", true}};
  if (kind % 2 != 0) body["seed"] = kind;
  if (kind % 10 == 1) body["logprobs"] = 1;
  return body;
}

int64_t PeakMebibytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

TEST_F(LoadTest, AThousandStreamsAreWhatEachIsAlone) {
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);

  auto backend = CreateCpuBackend({.threads = 2});
  ASSERT_TRUE(backend.ok()) << backend.status();
  auto model = Model::Load(TestModelPath(), *std::move(backend), 2048);
  ASSERT_TRUE(model.ok()) << model.status();
  auto engine = Engine::Create(*std::move(model), {.kv_cache_tokens = 8192});
  ASSERT_TRUE(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
  ServerOptions options;
  options.limits.request_timeout = std::chrono::hours(1);
  StartOnEngine(options);

  std::vector<StreamedAnswer> alone;
  ASSERT_NO_FATAL_FAILURE(AskEachAlone(port_, Kind, kKinds, alone));
  const int64_t before = PeakMebibytes();

  const auto begin = std::chrono::steady_clock::now();
  std::vector<HttpClient> clients;
  ASSERT_NO_FATAL_FAILURE(SendAll(port_, Kind, kKinds, kStreams, clients));
  size_t tokens = 0;
  int equal = 0;
  for (int i = 0; i < kStreams; ++i) {
    const HttpReply reply = clients[static_cast<size_t>(i)].ReadReply();
    ASSERT_EQ(reply.status, 200) << reply.body;
    const StreamedAnswer answer = ReadStreamedAnswer(reply);
    equal += answer == alone[static_cast<size_t>(i % kKinds)];
    for (const auto& [index, ids] : answer.ids) tokens += ids.size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(equal, kStreams);
  const int64_t grown = PeakMebibytes() - before;
  EXPECT_LT(grown, 256) << "MiB";
  std::printf(
      "%d streams, %zu tokens in %.1f s: %.1f tok/s, %.1f streams/s; %lld MiB more than alone\n",
      kStreams, tokens, seconds.count(), static_cast<double>(tokens) / seconds.count(),
      kStreams / seconds.count(), static_cast<long long>(grown));
  EXPECT_TRUE(EngineBecomesIdle());
  EXPECT_TRUE(engine_->CheckIntegrity().ok());
}

}  // namespace
}  // namespace isobit
