#include "kernels/numerics/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/numerics/philox.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint64_t kOneWeight = uint64_t{1} << kWeightBits;

TEST(Order, KeysOrderNumbersAndZerosAreEqual) {
  const float ascending[] = {-kInfinity, -3e38f, -1.5f, -0x1p-126f, -0x1p-149f, 0.0f,
                             0x1p-149f,  1.0f,   1.5f,  3e38f,      kInfinity};
  for (size_t i = 0; i + 1 < std::size(ascending); ++i) {
    EXPECT_LT(OrderKey(ascending[i]), OrderKey(ascending[i + 1])) << ascending[i];
  }
  EXPECT_EQ(OrderKey(-0.0f), OrderKey(0.0f));
  for (uint32_t nan : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0xffc00000u}) {
    EXPECT_LT(OrderKey(BitsFloat(nan)), OrderKey(-kInfinity));
  }
  RandomValues random(1);
  for (int i = 0; i < 100000; ++i) {
    const float a = BitsFloat(static_cast<uint32_t>(random.Bits()));
    const float b = BitsFloat(static_cast<uint32_t>(random.Bits()));
    if (std::isnan(a) || std::isnan(b)) continue;
    ASSERT_EQ(OrderKey(a) < OrderKey(b), a < b);
  }
}

TEST(Order, TiesGoToTheLowerId) {
  EXPECT_GT(RankKey(1.0f, 3), RankKey(1.0f, 4));
  EXPECT_GT(RankKey(0.0f, 3), RankKey(-0.0f, 4));
  EXPECT_GT(RankKey(-0.0f, 3), RankKey(0.0f, 4));
  EXPECT_GT(RankKey(2.0f, 0xffffffffu), RankKey(1.0f, 0));
  EXPECT_EQ(RankKeyToken(RankKey(2.0f, 12345)), 12345u);
  EXPECT_EQ(RankKeyToken(RankKey(-kInfinity, 0)), 0u);
}

TEST(Edits, AreSingleOperationsInOrder) {
  EXPECT_EQ(RepetitionPenalty(3.0f, 1.3f), 3.0f / 1.3f);
  EXPECT_EQ(RepetitionPenalty(-3.0f, 1.3f), -3.0f * 1.3f);
  EXPECT_EQ(RepetitionPenalty(0.0f, 1.3f), 0.0f);
  // The product is rounded before it is subtracted.
  const float product = 0.1f * 7.0f;
  EXPECT_EQ(FrequencyPenalty(0.7f, 0.1f, 7), 0.7f - product);
  EXPECT_NE(FrequencyPenalty(0.7f, 0.1f, 7), std::fma(-0.1f, 7.0f, 0.7f));

  float expected = -1.0f + 2.5f;  // now positive: the penalty divides
  expected = expected / 1.3f;
  expected = expected - 0.1f * 7.0f;
  expected = expected - 0.3f;
  EXPECT_EQ(EditLogit(-1.0f, 2.5f, true, 7, 1.3f, 0.1f, 0.3f), expected);
  EXPECT_EQ(EditLogit(-1.0f, 0.0f, true, 0, 1.3f, 0.1f, 0.3f), -1.3f) << "seen in the prompt only";
  EXPECT_EQ(EditLogit(-1.0f, 0.5f, false, 0, 1.3f, 0.1f, 0.3f), -0.5f);
  EXPECT_EQ(EditLogit(5.0f, -kInfinity, true, 2, 1.3f, 0.1f, 0.3f), -kInfinity);
}

TEST(Temperature, TinyMeansGreedy) {
  EXPECT_TRUE(IsGreedy(0.0f));
  EXPECT_TRUE(IsGreedy(0.99e-5f));
  EXPECT_FALSE(IsGreedy(1e-5f));
  EXPECT_EQ(ApplyTemperature(1.0f, 0.3f), 1.0f / 0.3f);
}

TEST(SoftmaxWeight, IsTheFloorOfTheScaledExponential) {
  EXPECT_EQ(SoftmaxWeight(3.5f, 3.5f), kOneWeight);
  EXPECT_EQ(SoftmaxWeight(-kInfinity, 3.5f), 0u);
  EXPECT_EQ(SoftmaxWeight(-kInfinity, -kInfinity), 0u);
  EXPECT_EQ(SoftmaxWeight(-100.0f, 0.0f), 0u);
  RandomValues random(2);
  for (int i = 0; i < 100000; ++i) {
    const float m = static_cast<float>(random.Normal() * 10.0);
    const float z = m - static_cast<float>(random.Uniform() * 30.0);
    const float difference = z - m;
    const float exponent = difference * 0x1.715476p+0f;
    const double expected = std::floor(std::ldexp(double{Exp2(exponent)}, 40));
    ASSERT_EQ(static_cast<double>(SoftmaxWeight(z, m)), expected) << z << " " << m;
    // As a probability it is right to fp32's accuracy.
    const double relative = 1e-6 * std::exp(double{z} - m) * 0x1p+40;
    ASSERT_NEAR(expected, std::exp(double{z} - m) * 0x1p+40, 1.0 + relative * 10.0);
  }
}

TEST(SoftmaxWeight, FallsWithTheLogit) {
  uint64_t before = kOneWeight;
  for (float z = 0.0f; z > -29.0f; z -= 0x1p-10f) {
    const uint64_t weight = SoftmaxWeight(z, 0.0f);
    ASSERT_LE(weight, before) << z;
    before = weight;
  }
}

TEST(LogProb, AgreesWithASoftmaxInDouble) {
  RandomValues random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<float> z(1000);
    for (float& x : z) x = static_cast<float>(random.Normal() * (1.0 + trial % 7));
    const float m = *std::max_element(z.begin(), z.end());
    uint64_t sum = 0;
    double exact_sum = 0;
    for (float x : z) {
      sum += SoftmaxWeight(x, m);
      exact_sum += std::exp(double{x} - m);
    }
    for (float x : z) {
      const double exact = double{x} - m - std::log(exact_sum);
      ASSERT_NEAR(LogProb(x, m, sum), exact, 2e-6 * (1.0 + std::fabs(exact)));
    }
  }
  EXPECT_EQ(FloatBits(LogProb(2.0f, 2.0f, kOneWeight)), 0u) << "a certain token";
  EXPECT_EQ(LogProb(-kInfinity, 2.0f, kOneWeight), -kInfinity);
  // The sum goes to fp32 by nearest even, not by cutting.
  EXPECT_EQ(LogProb(0.0f, 0.0f, kOneWeight + (uint64_t{3} << 16)), -Log(1.0f + 0x1p-22f));
  EXPECT_EQ(LogProb(0.0f, 0.0f, kOneWeight + (uint64_t{1} << 16)), -Log(1.0f));
}

TEST(Filters, ProbabilitiesInFixedPoint) {
  EXPECT_EQ(ProbabilityQ32(1.0), uint64_t{1} << 32);
  EXPECT_EQ(ProbabilityQ32(0.5), uint64_t{1} << 31);
  EXPECT_EQ(ProbabilityQ32(0.9), 3865470566u);  // floor(0.9 * 2^32) = 3865470566.4
  EXPECT_EQ(ProbabilityQ32(0.0), 0u);
}

TEST(Filters, TopPIsTheComparisonInExactIntegers) {
  RandomValues random(4);
  for (int i = 0; i < 200000; ++i) {
    // Sums to 2^62 and probabilities of every size.
    const uint64_t total = (random.Bits() >> (2 + random.Below(40))) | 1;
    const uint64_t q32 = i % 5 == 0 ? random.Bits() & 3 : random.Bits() >> 32;
    const uint64_t threshold = TopPThreshold(q32, total);
    const auto keep = [&](uint64_t before) {
      const uint64_t q = q32 == 0 ? 1 : q32;
      return static_cast<unsigned __int128>(before) << 32 <
             static_cast<unsigned __int128>(q) * total;
    };
    for (uint64_t before : {uint64_t{0}, threshold - 1, threshold, threshold + 1, total}) {
      ASSERT_EQ(before < threshold, keep(before)) << q32 << " " << total << " " << before;
    }
    ASSERT_GE(threshold, 1u) << "the first token stays";
  }
  EXPECT_EQ(TopPThreshold(uint64_t{1} << 32, 12345), 12345u) << "1 keeps all that have weight";
}

TEST(Filters, MinPComparesWithTheMaximum) {
  EXPECT_EQ(MinPThreshold(uint64_t{1} << 32), kOneWeight) << "the maximum passes min_p = 1";
  EXPECT_EQ(MinPThreshold(0), 0u);
  for (double min_p : {0.05, 0.1, 1e-9, 0.999}) {
    const uint64_t q32 = ProbabilityQ32(min_p), threshold = MinPThreshold(q32);
    for (uint64_t w : {threshold - 1, threshold, threshold + 1}) {
      const bool keep = static_cast<unsigned __int128>(w) << 32 >=
                        static_cast<unsigned __int128>(q32) << kWeightBits;
      EXPECT_EQ(w >= threshold, keep) << min_p;
    }
  }
}

TEST(Draw, TargetCoversTheWeightsEvenly) {
  RandomValues random(5);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t total = (random.Bits() >> (2 + random.Below(60))) | 1;
    const uint64_t bits = random.Bits();
    ASSERT_LT(DrawTarget(bits, total), total);
    ASSERT_EQ(DrawTarget(bits, total),
              static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * total >> 64));
  }
  EXPECT_EQ(DrawTarget(0, 77), 0u);
  EXPECT_EQ(DrawTarget(~uint64_t{0}, 77), 76u);
}

// Draws follow the distribution; a token of weight 0 is never drawn.
TEST(Draw, FrequenciesFollowTheWeights) {
  const float z[] = {1.0f, -kInfinity, 3.0f, 2.0f, -60.0f, 3.0f};
  uint64_t weights[6], total = 0;
  for (int i = 0; i < 6; ++i) total += weights[i] = SoftmaxWeight(z[i], 3.0f);
  int counts[6] = {};
  constexpr int kDraws = 100000;
  for (int position = 0; position < kDraws; ++position) {
    const uint64_t target = DrawTarget(DrawBits(7, 0, static_cast<uint64_t>(position)), total);
    uint64_t running = 0;
    for (int i = 0; i < 6; ++i) {
      running += weights[i];
      if (running > target) {
        ++counts[i];
        break;
      }
    }
  }
  EXPECT_EQ(counts[1], 0);
  EXPECT_EQ(counts[4], 0);
  double chi_squared = 0;
  for (int i : {0, 2, 3, 5}) {
    const double expected = kDraws * (static_cast<double>(weights[i]) / static_cast<double>(total));
    chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_squared, 11.3);  // 1% with 3 degrees of freedom; the draws are fixed
}

// The largest vocabulary imaginable can't overflow a sum.
TEST(SoftmaxWeight, SumsOfAVocabularyFit) {
  constexpr uint64_t kVocabulary = uint64_t{1} << 22;
  static_assert(kVocabulary <= ~uint64_t{0} / kOneWeight);
  EXPECT_EQ(LogProb(0.0f, 0.0f, kVocabulary * kOneWeight), -Log(0x1p+22f));
}

}  // namespace
}  // namespace isobit
