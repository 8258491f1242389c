#include "kernels/cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/numerics/sampling.h"
#include "kernels/reference/backend.h"
#include "tests/kernels/cpu/inputs.h"
#include "tests/kernels/cpu/logits.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Input {
  int64_t vocab = 0;
  std::vector<float> logits;  // [rows][vocab]
  std::vector<SamplingRow> params;
  std::vector<LogitEdit> edits;
};

struct Output {
  std::vector<SampledToken> sampled;
  std::vector<TokenLogProb> top;  // [rows][top_stride]
  int top_stride = 0;
};

using Sampler = std::function<void(const SampleTokens&)>;

Output Sample(const Input& input, const Sampler& sampler) {
  Output output;
  for (const SamplingRow& row : input.params) {
    output.top_stride = std::max(output.top_stride, row.top_count + 1);
  }
  output.sampled.resize(input.params.size());
  output.top.resize(input.params.size() * output.top_stride);
  SampleTokens op;
  op.rows = static_cast<int64_t>(input.params.size());
  op.vocab = input.vocab;
  op.logits = input.logits.data();
  op.params = input.params.data();
  op.edits = input.edits.data();
  op.top_stride = output.top_stride;
  op.sampled = output.sampled.data();
  op.top = output.top.data();
  sampler(op);
  return output;
}

// ---- Fast against reference

// Edits for a few tokens of a row, each at most once.
void AddEdits(Random& random, int64_t vocab, SamplingRow& row, std::vector<LogitEdit>& edits) {
  row.edit_begin = static_cast<int32_t>(edits.size());
  std::set<int32_t> used;
  for (int64_t i = random.Below(6); i > 0; --i) {
    LogitEdit edit;
    edit.token = static_cast<int32_t>(random.Below(vocab));
    if (!used.insert(edit.token).second) continue;
    const float biases[] = {0.0f, -2.5f, 7.0f, -kInfinity};
    edit.bias = biases[random.Below(4)];
    edit.output_count = static_cast<int32_t>(random.Below(3));
    edit.seen = edit.output_count > 0 || random.Below(2) == 0;
    edits.push_back(edit);
  }
  row.edit_end = static_cast<int32_t>(edits.size());
}

template <typename T>
T OneOf(Random& random, const std::vector<T>& choices) {
  return choices[random.Below(static_cast<int64_t>(choices.size()))];
}

SamplingRow RandomParams(Random& random, int64_t vocab) {
  SamplingRow row;
  row.temperature = OneOf<float>(random, {0.0f, 1e-6f, 1e-5f, 0.3f, 1.0f, 1.0f, 1.7f, 100.0f});
  row.top_k = OneOf<int32_t>(random, {0, 0, 1, 2, 40, 300, static_cast<int32_t>(vocab),
                                      std::numeric_limits<int32_t>::max()});
  row.top_p_q32 =
      ProbabilityQ32(OneOf<double>(random, {1.0, 1.0, 0.0, 1e-9, 0.5, 0.95, 0.9999999}));
  row.min_p_q32 = ProbabilityQ32(OneOf<double>(random, {0.0, 0.0, 1e-9, 0.02, 0.5, 1.0}));
  row.repetition_penalty = OneOf<float>(random, {1.0f, 1.3f, 0.5f});
  row.frequency_penalty = OneOf<float>(random, {0.0f, 0.75f, -1.0f});
  row.presence_penalty = OneOf<float>(random, {0.0f, 1.5f});
  row.seed = random.Next();
  row.sample_index = static_cast<uint32_t>(random.Below(3));
  row.position = random.Next() >> (random.Below(2) == 0 ? 50 : 1);
  row.top_count = OneOf<int32_t>(random, {0, 1, 5, 20, kMaxTopLogProbs});
  row.processed = static_cast<int32_t>(random.Below(2));
  return row;
}

class SampleAgainstReferenceTest : public testing::Test {
 protected:
  // The reference is slow: its answer is computed once for all variants.
  void ExpectEqual(const Input& input) {
    const Output want = Sample(input, [](const SampleTokens& op) { reference::Run(op); });
    for (const CpuVariant& variant : CpuVariants()) {
      CpuContext context(variant.threads, variant.instructions.targets);
      SampleRunner runner(context);
      const Output got = Sample(input, [&](const SampleTokens& op) { runner.Run(op); });
      EXPECT_TRUE(SameBits(got.sampled, want.sampled)) << variant.Name();
      EXPECT_TRUE(SameBits(got.top, want.top, want.top_stride)) << variant.Name();
    }
  }
};

TEST_F(SampleAgainstReferenceTest, RandomRows) {
  Random random(1);
  for (LogitKind kind : kLogitKinds) {
    for (int64_t vocab : {1, 2, 31, 32, 33, 100, 1000, 3000, 8192, 8193, 20000}) {
      Input input;
      input.vocab = vocab;
      const int64_t rows = vocab <= 1000 ? 40 : 4;
      input.logits = RandomLogits(random, rows, vocab, kind);
      for (int64_t r = 0; r < rows; ++r) {
        input.params.push_back(RandomParams(random, vocab));
        if (random.Below(2) == 0) AddEdits(random, vocab, input.params.back(), input.edits);
      }
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", vocab " << vocab);
      ExpectEqual(input);
    }
  }
}

// Filters that the 64, and the 1024, most likely tokens do not decide.
TEST_F(SampleAgainstReferenceTest, WideFilters) {
  Random random(2);
  Input input;
  input.vocab = 49152;
  input.logits = RandomLogits(random, 1, input.vocab, LogitKind::kModel);
  for (float& z : input.logits) z *= 0.2f;
  SamplingRow row;
  row.temperature = 1.0f;
  row.seed = 5;
  row.top_count = 20;
  row.processed = 1;
  for (const auto& [top_k, top_p, min_p] :
       {std::tuple(0, 0.9, 0.0), std::tuple(0, 0.01, 0.0), std::tuple(3000, 1.0, 0.0),
        std::tuple(3000, 0.5, 0.0), std::tuple(0, 1.0, 0.3), std::tuple(5000, 0.9, 0.15),
        // A top_p of what min_p leaves, which is not known before min_p is decided.
        std::tuple(0, 0.005, 0.3)}) {
    row.top_k = top_k;
    row.top_p_q32 = ProbabilityQ32(top_p);
    row.min_p_q32 = ProbabilityQ32(min_p);
    input.params = {row};
    ExpectEqual(input);
  }
}

// ---- Properties, of the fast sampler and of the reference alike

struct NamedSampler {
  std::string name;
  std::function<Sampler()> make;
};

NamedSampler CpuSampler(const InstructionSet& set, int threads) {
  return {set.name + std::to_string(threads), [set, threads]() -> Sampler {
            auto context = std::make_shared<CpuContext>(threads, set.targets);
            auto runner = std::make_shared<SampleRunner>(*context);
            return [context, runner](const SampleTokens& op) { runner->Run(op); };
          }};
}

class SampleTest : public testing::TestWithParam<NamedSampler> {
 protected:
  Output Run(const Input& input) { return Sample(input, sampler_); }
  // The token of one row.
  int32_t Draw(const std::vector<float>& logits, const SamplingRow& row,
               const std::vector<LogitEdit>& edits = {}) {
    return Run({static_cast<int64_t>(logits.size()), logits, {row}, edits}).sampled[0].token;
  }
  // Tokens of `draws` rows that differ in position only.
  std::vector<int32_t> DrawMany(const std::vector<float>& logits, SamplingRow row, int draws) {
    Input input;
    input.vocab = static_cast<int64_t>(logits.size());
    for (int i = 0; i < draws; ++i) {
      input.logits.insert(input.logits.end(), logits.begin(), logits.end());
      row.position = i;
      input.params.push_back(row);
    }
    std::vector<int32_t> tokens;
    for (const SampledToken& sampled : Run(input).sampled) tokens.push_back(sampled.token);
    return tokens;
  }
  Sampler sampler_ = GetParam().make();
};

SamplingRow Row(float temperature, uint64_t seed = 1) {
  SamplingRow row;
  row.temperature = temperature;
  row.seed = seed;
  return row;
}

TEST_P(SampleTest, GreedyIsTheHighestThenTheLowestId) {
  EXPECT_EQ(Draw({1.0f, 3.0f, 3.0f, 2.0f}, Row(0.0f)), 1);
  EXPECT_EQ(Draw({-0.0f, 0.0f}, Row(0.0f)), 0);
  EXPECT_EQ(Draw({0.0f, -0.0f}, Row(0.0f)), 0);
  EXPECT_EQ(Draw({-kInfinity, -3e38f}, Row(0.0f)), 1);
  EXPECT_EQ(Draw({3e38f, 3.1e38f}, Row(0.0f)), 1);  // beyond what a small temperature could divide
  std::vector<float> long_row(50000, -1.0f);
  long_row[40001] = long_row[8191] = long_row[49999] = 2.0f;
  EXPECT_EQ(Draw(long_row, Row(0.0f)), 8191);
}

TEST_P(SampleTest, TiesWithTopKOneGiveTheLowestId) {
  std::vector<float> logits(300, 0.5f);
  logits[0] = logits[1] = -1.0f;
  SamplingRow row = Row(1.0f);
  row.top_k = 1;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    row.seed = seed;
    ASSERT_EQ(Draw(logits, row), 2) << "seed " << seed;
  }
}

TEST_P(SampleTest, TiesAtTheBorderOfTopKKeepLowIds) {
  //                                 0     1     2     3     4     5     6
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, 1.0f, 1.0f, 1.0f, 0.0f};
  SamplingRow row = Row(1.0f);
  row.top_k = 3;
  const std::vector<int32_t> tokens = DrawMany(logits, row, 10000);
  EXPECT_EQ(std::set<int32_t>(tokens.begin(), tokens.end()), (std::set<int32_t>{1, 2, 3}));
}

TEST_P(SampleTest, FilteredTokensAreNeverDrawn) {
  Random random(7);
  const int64_t vocab = 64;
  std::vector<float> logits(vocab);
  for (float& z : logits) z = random.Normal(0.0f, 1.5f);
  // What may be drawn, by the definitions in long double.
  std::vector<int32_t> order(vocab);
  for (int32_t i = 0; i < vocab; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
  long double sum = 0;
  std::vector<long double> p(vocab);
  for (int64_t i = 0; i < vocab; ++i) sum += p[i] = std::exp(static_cast<long double>(logits[i]));
  for (long double& x : p) x /= sum;

  for (double min_p : {0.0, 0.1}) {
    for (double top_p : {0.3, 0.8, 1.0}) {
      for (int top_k : {0, 10}) {
        std::set<int32_t> allowed;
        long double left = 0, before = 0;
        std::vector<int32_t> kept;
        for (int32_t token : order) {
          if (p[token] < min_p * p[order[0]]) break;
          if (top_k > 0 && static_cast<int>(kept.size()) == top_k) break;
          kept.push_back(token);
          left += p[token];
        }
        for (int32_t token : kept) {
          if (before >= top_p * left && top_p < 1.0) break;
          allowed.insert(token);
          before += p[token];
        }
        SamplingRow row = Row(1.0f, 11);
        row.min_p_q32 = ProbabilityQ32(min_p);
        row.top_p_q32 = ProbabilityQ32(top_p);
        row.top_k = top_k;
        const std::vector<int32_t> tokens = DrawMany(logits, row, 10000);
        const std::set<int32_t> drawn(tokens.begin(), tokens.end());
        EXPECT_TRUE(std::includes(allowed.begin(), allowed.end(), drawn.begin(), drawn.end()))
            << "min_p " << min_p << ", top_p " << top_p << ", top_k " << top_k;
        if (allowed.size() <= 12) {  // all of them are likely enough
          EXPECT_EQ(drawn, allowed);
        }
      }
    }
  }
}

// Draws follow the softmax: Pearson's chi-square over 40,000 draws, 15 degrees of freedom. A right
// sampler exceeds 37.7 once in a thousand times; seeds are fixed, so this one never does.
TEST_P(SampleTest, DrawsFollowTheDistribution) {
  Random random(8);
  const int64_t vocab = 16;
  std::vector<float> logits(vocab);
  for (float& z : logits) z = random.Normal(0.0f, 1.0f);
  for (float temperature : {0.7f, 1.0f, 2.0f}) {
    for (uint64_t seed : {uint64_t{1}, uint64_t{0xffffffffffffffff}}) {
      constexpr int kDraws = 40000;
      std::vector<int> count(vocab, 0);
      for (int32_t token : DrawMany(logits, Row(temperature, seed), kDraws)) ++count[token];
      long double sum = 0;
      for (float z : logits) sum += std::exp(static_cast<long double>(z) / temperature);
      double chi_square = 0;
      for (int64_t i = 0; i < vocab; ++i) {
        const double expected = kDraws * std::exp(logits[i] / temperature) / sum;
        chi_square += (count[i] - expected) * (count[i] - expected) / expected;
      }
      EXPECT_LT(chi_square, 37.7) << "temperature " << temperature << ", seed " << seed;
    }
  }
}

TEST_P(SampleTest, SeedSampleIndexAndPositionAddressTheDraw) {
  const std::vector<float> logits(1000, 0.0f);
  SamplingRow row = Row(1.0f, 3);
  row.position = 12;
  const int32_t token = Draw(logits, row);
  EXPECT_EQ(Draw(logits, row), token);
  SamplingRow other = row;
  other.seed = 4;
  EXPECT_NE(Draw(logits, other), token);
  other = row;
  other.sample_index = 1;
  EXPECT_NE(Draw(logits, other), token);
  other = row;
  other.position = 13;
  EXPECT_NE(Draw(logits, other), token);
  other = row;
  other.position += uint64_t{1} << 32;  // the upper half counts
  EXPECT_NE(Draw(logits, other), token);
  other = row;
  other.seed += uint64_t{1} << 32;
  EXPECT_NE(Draw(logits, other), token);
}

TEST_P(SampleTest, EditsAreTheirFormulas) {
  Random random(9);
  Input input;
  input.vocab = 50;
  input.logits.resize(input.vocab);
  for (float& z : input.logits) z = random.Normal(0.0f, 3.0f);
  SamplingRow row = Row(0.8f);
  row.repetition_penalty = 1.3f;
  row.frequency_penalty = 0.4f;
  row.presence_penalty = -0.6f;
  row.processed = 1;
  row.top_count = static_cast<int32_t>(input.vocab);
  std::vector<double> z(input.logits.begin(), input.logits.end());
  for (int32_t token = 0; token < 24; ++token) {
    LogitEdit edit;
    edit.token = token;
    edit.bias = random.Uniform(-3.0f, 3.0f);
    edit.output_count = token % 3;
    edit.seen = token % 3 > 0 || token % 2 == 0;
    input.edits.push_back(edit);
    z[token] += edit.bias;
    if (edit.seen) z[token] = z[token] > 0 ? z[token] / 1.3 : z[token] * 1.3;
    if (edit.output_count > 0) z[token] = z[token] - 0.4 * edit.output_count + 0.6;
  }
  row.edit_end = static_cast<int32_t>(input.edits.size());
  input.params = {row};
  double sum = 0;
  for (double& x : z) sum += std::exp(x /= 0.8f);
  const Output output = Run(input);
  for (int64_t i = 0; i < input.vocab; ++i) {
    const TokenLogProb& top = output.top[i];
    ASSERT_GE(top.token, 0);
    EXPECT_NEAR(top.logprob, z[top.token] - std::log(sum), 3e-5) << "token " << top.token;
    if (i > 0) {
      EXPECT_LE(top.logprob, output.top[i - 1].logprob);
    }
  }
  // The greedy choice sees the same edits.
  input.params[0].temperature = 0.0f;
  EXPECT_EQ(Run(input).sampled[0].token, std::max_element(z.begin(), z.end()) - z.begin());
}

TEST_P(SampleTest, ABiasOfMinusInfinityForbids) {
  Input input;
  input.vocab = 3;
  input.logits = {1.0f, 9.0f, 2.0f};
  input.edits = {{/*token=*/1, -kInfinity, 0, 0}, {0, -kInfinity, 0, 0}, {2, -kInfinity, 0, 0}};
  for (float temperature : {0.0f, 1.0f}) {
    SamplingRow row = Row(temperature);
    row.edit_end = 2;
    row.processed = 1;
    row.top_count = 3;
    input.params = {row};
    const Output output = Run(input);
    EXPECT_EQ(output.sampled[0].token, 2);
    EXPECT_EQ(output.sampled[0].processed_logprob, 0.0f);
    EXPECT_EQ(output.top[0].token, 2);
    EXPECT_EQ(output.top[1].token, -1);  // what is forbidden was not kept
    input.params[0].edit_end = 3;
    EXPECT_EQ(Run(input).sampled[0].token, -1) << "nothing is left";
  }
}

// Case 13 at this level: what is asked for does not change what is drawn.
TEST_P(SampleTest, AskingForLogProbsChangesNothing) {
  Random random(10);
  Input input;
  input.vocab = 2000;
  const int64_t rows = 24;
  input.logits = RandomLogits(random, rows, input.vocab, LogitKind::kModel);
  for (int64_t r = 0; r < rows; ++r) {
    input.params.push_back(RandomParams(random, input.vocab));
    AddEdits(random, input.vocab, input.params.back(), input.edits);
  }
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<float>> logprobs;
  for (const auto& [top_count, processed] : {std::pair(0, 0), std::pair(20, 0), std::pair(20, 1)}) {
    for (SamplingRow& row : input.params) {
      row.top_count = top_count;
      row.processed = processed;
    }
    tokens.emplace_back();
    logprobs.emplace_back();
    for (const SampledToken& sampled : Run(input).sampled) {
      tokens.back().push_back(sampled.token);
      logprobs.back().push_back(sampled.logprob);
    }
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_EQ(tokens[0], tokens[2]);
  EXPECT_TRUE(SameBits(logprobs[1], logprobs[0]));
  EXPECT_TRUE(SameBits(logprobs[2], logprobs[0]));
}

// Case 10 at this level: a row alone, at every place in a batch, beside rows without a
// distribution.
TEST_P(SampleTest, RowsDoNotAffectEachOther) {
  Random random(11);
  Input alone;
  alone.vocab = 900;
  alone.logits = RandomLogits(random, 1, alone.vocab, LogitKind::kModel);
  SamplingRow row = Row(0.9f, 77);
  row.top_p_q32 = ProbabilityQ32(0.9);
  row.top_k = 50;
  row.processed = 1;
  row.top_count = 3;
  alone.params = {row};
  alone.edits = {{5, 1.5f, 1, 1}};
  alone.params[0].edit_end = 1;
  const Output want = Run(alone);
  ASSERT_GE(want.sampled[0].token, 0);
  for (int64_t rows : {2, 7}) {
    for (int64_t place = 0; place < rows; ++place) {
      Input input = alone;
      input.logits = RandomLogits(random, rows, alone.vocab,
                                  place % 2 == 0 ? LogitKind::kNoMax : LogitKind::kWide);
      std::copy(alone.logits.begin(), alone.logits.end(),
                input.logits.begin() + place * alone.vocab);
      input.params.clear();
      for (int64_t r = 0; r < rows; ++r) input.params.push_back(RandomParams(random, alone.vocab));
      input.params[place] = alone.params[0];
      const Output got = Run(input);
      EXPECT_TRUE(SameBits<SampledToken>({got.sampled[place]}, want.sampled));
      for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(SameBits<TokenLogProb>({got.top[place * got.top_stride + i]}, {want.top[i]}));
      }
    }
  }
}

TEST_P(SampleTest, RowsWithoutADistributionGiveNoToken) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> rows = {
      {1.0f, nan, 2.0f}, {1.0f, kInfinity, 2.0f}, {-kInfinity, -kInfinity, -kInfinity}};
  for (const std::vector<float>& logits : rows) {
    for (float temperature : {0.0f, 1.0f, 0.5f}) {
      SamplingRow row = Row(temperature);
      row.top_count = 2;
      const Output output = Run({3, logits, {row}, {}});
      EXPECT_EQ(output.sampled[0].token, -1);
      EXPECT_EQ(output.top[0].token, -1);
    }
  }
  // Finite logits that the temperature takes out of range.
  EXPECT_EQ(Draw({1.0f, 3e38f}, Row(0.5f)), -1);
}

TEST_P(SampleTest, ProcessedProbabilitiesAreOfWhatIsLeft) {
  Random random(12);
  Input input;
  input.vocab = 5000;
  input.logits = RandomLogits(random, 1, input.vocab, LogitKind::kModel);
  SamplingRow row = Row(0.7f);
  row.top_k = 30;
  row.processed = 1;
  row.top_count = 40;
  input.params = {row};
  const Output output = Run(input);
  double sum = 0;
  for (int i = 0; i < 30; ++i) {
    ASSERT_GE(output.top[i].token, 0);
    if (i > 0) {
      EXPECT_GE(output.top[i - 1].logprob, output.top[i].logprob);
    }
    sum += std::exp(static_cast<double>(output.top[i].logprob));
    if (output.top[i].token == output.sampled[0].token) {
      EXPECT_EQ(output.top[i].logprob, output.sampled[0].processed_logprob);
    }
  }
  EXPECT_NEAR(sum, 1.0, 1e-5);
  for (int i = 30; i < 40; ++i) EXPECT_EQ(output.top[i].token, -1);
  // Raw log-probabilities see no temperature and no filter.
  long double raw_sum = 0;
  for (float z : input.logits) raw_sum += std::exp(static_cast<long double>(z));
  EXPECT_NEAR(output.sampled[0].logprob, input.logits[output.sampled[0].token] - std::log(raw_sum),
              2e-6);
}

std::vector<NamedSampler> Samplers() {
  const std::vector<InstructionSet> sets = AvailableInstructionSets();
  NamedSampler reference = {"reference",
                            [] { return [](const SampleTokens& op) { reference::Run(op); }; }};
  return {reference, CpuSampler(sets.front(), 1), CpuSampler(sets.front(), 3),
          CpuSampler(sets.back(), 1)};
}

std::string SamplerName(const testing::TestParamInfo<NamedSampler>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Samplers, SampleTest, testing::ValuesIn(Samplers()), SamplerName);

}  // namespace
}  // namespace isobit
