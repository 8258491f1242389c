// Log-probabilities of the CUDA backend against the reference.

#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/cuda/logits.h"
#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {
namespace {

class CudaScoreTest : public TwinBackends {
 protected:
  void Check(int64_t vocab, int top_count, LogitKind kind) {
    constexpr int64_t kRows = 3;
    RandomValues random(static_cast<uint64_t>(vocab) * 1000 + static_cast<uint64_t>(top_count));
    std::vector<float> logits;
    std::vector<int32_t> tokens;
    for (int64_t r = 0; r < kRows; ++r) {
      AppendLogits(vocab, kind, random, &logits);
      tokens.push_back(static_cast<int32_t>(random.Below(vocab)));
    }
    const auto logits_both = Both(logits);
    const auto tokens_both = Both(tokens);
    const auto logprob = Poisoned<float>(kRows);
    const auto top = Poisoned<TokenLogProb>(kRows * top_count);
    RunBoth([&](bool c) {
      return ScoreTokens{.rows = kRows,
                         .vocab = vocab,
                         .logits = Side(logits_both, c),
                         .token = Side(tokens_both, c),
                         .top_count = top_count,
                         .logprob = Side(logprob, c),
                         .top = Side(top, c)};
    });
    const std::string what =
        ToString(kind) + ", " + std::to_string(vocab) + " tokens, top " + std::to_string(top_count);
    ExpectEqualBits(logprob, 1, "log-probabilities, " + what);
    if (top_count > 0) ExpectEqualBits(top, top_count, "top, " + what);
  }
};

TEST_F(CudaScoreTest, EveryKind) {
  for (LogitKind kind : kAllLogitKinds) {
    for (int64_t vocab : {1, 2, 7, 8, 9, 100, 1000, 49152}) {
      for (int top_count : {0, 1, 5, 20, kMaxTopLogProbs}) Check(vocab, top_count, kind);
    }
  }
}

// Few launches: compute-sanitizer runs it.
TEST_F(CudaScoreTest, SmallVocabulary) {
  for (LogitKind kind : {LogitKind::kNormal, LogitKind::kTies, LogitKind::kNan}) {
    Check(300, 20, kind);
  }
}

TEST_F(CudaScoreTest, LargeVocabularies) {
  for (LogitKind kind : {LogitKind::kNormal, LogitKind::kTies, LogitKind::kEqual}) {
    for (int64_t vocab : {128256, 151936, 262144}) Check(vocab, 20, kind);
  }
}

}  // namespace
}  // namespace isobit
