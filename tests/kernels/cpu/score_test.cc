#include "kernels/cpu/score.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/backend.h"
#include "tests/kernels/cpu/inputs.h"
#include "tests/kernels/cpu/logits.h"

namespace isobit {
namespace {

struct Scores {
  std::vector<float> logprob;
  std::vector<TokenLogProb> top;
};

template <typename Run>
Scores Score(const std::vector<float>& logits, int64_t vocab, const std::vector<int32_t>& tokens,
             int top_count, const Run& run) {
  Scores scores;
  scores.logprob.resize(tokens.size());
  scores.top.resize(tokens.size() * top_count);
  ScoreTokens op;
  op.rows = static_cast<int64_t>(tokens.size());
  op.vocab = vocab;
  op.logits = logits.data();
  op.token = tokens.data();
  op.top_count = top_count;
  op.logprob = scores.logprob.data();
  op.top = scores.top.data();
  run(op);
  return scores;
}

class ScoreTest : public CpuVariantTest {
 protected:
  Scores ScoreOnCpu(const std::vector<float>& logits, int64_t vocab,
                    const std::vector<int32_t>& tokens, int top_count) {
    return Score(logits, vocab, tokens, top_count, [&](const ScoreTokens& op) { runner_.Run(op); });
  }
  void ExpectEqual(const std::vector<float>& logits, int64_t vocab,
                   const std::vector<int32_t>& tokens, int top_count) {
    const Scores got = ScoreOnCpu(logits, vocab, tokens, top_count);
    const Scores want =
        Score(logits, vocab, tokens, top_count, [](const ScoreTokens& op) { reference::Run(op); });
    EXPECT_TRUE(SameBits(got.logprob, want.logprob));
    EXPECT_TRUE(SameBits(got.top, want.top, std::max(top_count, 1)));
  }
  ScoreRunner runner_{context_};
};

TEST_P(ScoreTest, EqualsReference) {
  Random random(1);
  for (LogitKind kind : kLogitKinds) {
    for (int64_t vocab : {1, 2, 31, 32, 33, 100, 1000, 8192, 8193, 9000}) {
      const int64_t rows = vocab <= 100 ? 9 : 2;
      const std::vector<float> logits = RandomLogits(random, rows, vocab, kind);
      std::vector<int32_t> tokens(rows);
      for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(vocab));
      for (int top_count : {0, 1, 5, kMaxTopLogProbs}) {
        SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", vocab " << vocab
                                        << ", top " << top_count);
        ExpectEqual(logits, vocab, tokens, top_count);
      }
    }
  }
}

TEST_P(ScoreTest, WholeVocabularyOfAModel) {
  Random random(2);
  const int64_t vocab = 49152;
  const std::vector<float> logits = RandomLogits(random, 1, vocab, LogitKind::kModel);
  ExpectEqual(logits, vocab, {17}, 5);
}

// A row has the same bits alone and at any place among rows that have no distribution.
TEST_P(ScoreTest, RowsDoNotAffectEachOther) {
  Random random(3);
  const int64_t vocab = 700, rows = 5;
  const std::vector<float> row = RandomLogits(random, 1, vocab, LogitKind::kModel);
  const Scores alone = ScoreOnCpu(row, vocab, {3}, 4);
  for (int64_t place = 0; place < rows; ++place) {
    std::vector<float> logits(rows * vocab, std::numeric_limits<float>::quiet_NaN());
    std::copy(row.begin(), row.end(), logits.begin() + place * vocab);
    const Scores all = ScoreOnCpu(logits, vocab, std::vector<int32_t>(rows, 3), 4);
    for (int64_t r = 0; r < rows; ++r) {
      if (r == place) {
        EXPECT_TRUE(SameBits<float>({all.logprob[r]}, alone.logprob));
        EXPECT_TRUE(SameBits<TokenLogProb>({all.top.begin() + r * 4, all.top.begin() + r * 4 + 4},
                                           alone.top));
      } else {
        EXPECT_TRUE(IsNan(all.logprob[r]));
        EXPECT_EQ(all.top[r * 4].token, -1);
      }
    }
  }
}

// Against the definition in long double, so that not only the reference's word counts.
TEST_P(ScoreTest, IsTheLogarithmOfTheSoftmax) {
  Random random(4);
  const int64_t vocab = 5000;
  const std::vector<float> logits = RandomLogits(random, 1, vocab, LogitKind::kModel);
  long double sum = 0;
  for (float z : logits) sum += std::exp(static_cast<long double>(z));
  for (int32_t token : {0, 1, 777, 4999}) {
    const Scores scores = ScoreOnCpu(logits, vocab, {token}, 0);
    EXPECT_NEAR(scores.logprob[0], logits[token] - std::log(sum), 2e-6);
  }
}

TEST_P(ScoreTest, TopIsOrderedAndEndsWithTheVocabulary) {
  const float kMinusInfinity = -std::numeric_limits<float>::infinity();
  // -0 and +0 are equal, so their ids decide; the forbidden token comes last.
  const std::vector<float> logits = {-0.0f, 2.0f, 0.0f, kMinusInfinity, 2.0f};
  const Scores scores = ScoreOnCpu(logits, 5, {3}, 7);
  const int32_t order[] = {1, 4, 0, 2, 3, -1, -1};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(scores.top[i].token, order[i]) << i;
  EXPECT_EQ(scores.logprob[0], kMinusInfinity);
  EXPECT_EQ(scores.top[4].logprob, kMinusInfinity);
}

INSTANTIATE_TEST_SUITE_P(Cpu, ScoreTest, testing::ValuesIn(CpuVariants()), VariantName);

}  // namespace
}  // namespace isobit
