#include "kernels/cpu/softmax.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/numerics/sampling.h"
#include "tests/kernels/cpu/inputs.h"
#include "tests/kernels/cpu/logits.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using SoftmaxTest = CpuVariantTest;

// Weights in vectors against the scalar function, over a dense sample of all differences that have
// a weight and many that have none.
TEST_P(SoftmaxTest, WeightsEqualTheScalarFunction) {
  std::vector<float> z;
  for (uint32_t bits = 0; bits < FloatBits(200.0f); bits += 4099) z.push_back(-BitsFloat(bits));
  for (float special : {0.0f, -27.7f, -27.8f, -28.0f, -kInfinity, -3e38f}) z.push_back(special);
  for (float m : {0.0f, 17.25f, -3.0f}) {
    std::vector<float> below(z);
    for (float& x : below) x = ieee::Add(m, x);
    std::vector<uint64_t> got(z.size()), want(z.size());
    for (size_t i = 0; i < z.size(); ++i) want[i] = SoftmaxWeight(below[i], m);
    WeightsOfRow(context_, below.data(), static_cast<int64_t>(z.size()), m, got.data());
    EXPECT_TRUE(SameBits(got, want)) << m;
  }
}

TEST_P(SoftmaxTest, PassesOverRowsOfAnyLength) {
  Random random(1);
  for (int64_t n = 0; n <= 70; ++n) {
    for (LogitKind kind : {LogitKind::kModel, LogitKind::kTies, LogitKind::kForbidden}) {
      const std::vector<float> z = n == 0 ? std::vector<float>() : RandomLogits(random, 1, n, kind);
      const float m = n == 0 ? 0.0f : *std::max_element(z.begin(), z.end());
      for (float threshold : {-kInfinity, 1.0f, m}) {
        uint64_t sum = 0;
        std::vector<int32_t> tokens;
        std::vector<uint64_t> buckets(kBuckets, 0);
        for (int64_t i = 0; i < n; ++i) {
          buckets[BucketOf(z[i], m)] += SoftmaxWeight(z[i], m);
          if (z[i] < threshold) continue;
          sum += SoftmaxWeight(z[i], m);
          if (z[i] <= m - 0.5f) tokens.push_back(static_cast<int32_t>(100 + i));
        }
        EXPECT_EQ(SumOfWeights(context_, z.data(), n, m, threshold), sum);
        std::vector<int32_t> got_tokens(n + 16);
        got_tokens.resize(TokensBetween(context_, z.data(), n, threshold, m - 0.5f, /*first=*/100,
                                        got_tokens.data()));
        EXPECT_EQ(got_tokens, tokens);
        std::vector<uint64_t> got_buckets(kBuckets, 0);
        AddToBuckets(context_, z.data(), n, m, got_buckets.data());
        EXPECT_EQ(got_buckets, buckets);
      }
    }
  }
}

TEST_P(SoftmaxTest, FindsMaximaAndNaNs) {
  Random random(2);
  for (int64_t n : {1, 31, 32, 33, 64, 100, 1000}) {
    std::vector<float> z = RandomLogits(random, 1, n, LogitKind::kForbidden);
    std::vector<float> got((n + kBlockTokens - 1) / kBlockTokens), want;
    for (int64_t b = 0; b < n; b += kBlockTokens) {
      want.push_back(*std::max_element(z.begin() + b, z.begin() + std::min(n, b + kBlockTokens)));
    }
    EXPECT_TRUE(BlockMaxima(context_, z.data(), n, got.data()));
    EXPECT_EQ(got, want);
    for (int64_t place : {int64_t{0}, n / 2, n - 1}) {
      std::vector<float> with_nan = z;
      with_nan[place] = BitsFloat(0xffc00001u);
      EXPECT_FALSE(BlockMaxima(context_, with_nan.data(), n, got.data())) << place << " of " << n;
    }
  }
}

TEST_P(SoftmaxTest, BucketsFollowTheOrder) {
  EXPECT_EQ(BucketOf(5.0f, 5.0f), 0);
  EXPECT_EQ(BucketOf(-kInfinity, 5.0f), kBuckets - 1);
  EXPECT_EQ(SoftmaxWeight(5.0f - (kBuckets - 1) / kBucketsPerUnit, 5.0f), 0u);
}

// ---- SoftmaxRow

class SoftmaxRowTest : public CpuVariantTest {
 protected:
  void Prepare(const std::vector<float>& z) {
    const int64_t vocab = static_cast<int64_t>(z.size());
    row_.Begin(z.data(), vocab);
    for (int64_t s = 0; s < SoftmaxRow::Slices(vocab); ++s) row_.Scan(context_, s);
    ASSERT_TRUE(row_.FinishScan());
    for (int64_t s = 0; s < SoftmaxRow::Slices(vocab); ++s) row_.Sum(context_, s);
    row_.FinishSum();
  }
  SoftmaxRow row_;
};

// The running sum must exceed the target: what a draw hits at a border, which random seeds never
// do.
TEST_P(SoftmaxRowTest, TokensChangeExactlyAtTheRunningSum) {
  constexpr uint64_t kOne = uint64_t{1} << kWeightBits;
  const std::vector<float> z(20000, -2.0f);
  Prepare(z);
  EXPECT_EQ(row_.total(), 20000 * kOne);
  for (int32_t token : {0, 1, 255, 256, 8191, 8192, 19999}) {
    EXPECT_EQ(row_.TokenAtWeight(context_, token * kOne), token);
    EXPECT_EQ(row_.TokenAtWeight(context_, (token + 1) * kOne - 1), token);
  }
}

TEST_P(SoftmaxRowTest, PrefixOfTopPIsExact) {
  Random random(3);
  for (LogitKind kind : kLogitKinds) {
    for (int64_t vocab : {5, 300, 10000}) {
      const std::vector<float> z = RandomLogits(random, 1, vocab, kind);
      Prepare(z);
      std::vector<uint64_t> keys;
      for (int64_t i = 0; i < vocab; ++i) keys.push_back(RankKey(z[i], static_cast<uint32_t>(i)));
      std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
      for (uint64_t threshold : {uint64_t{1}, row_.total() / 3, row_.total()}) {
        uint64_t before = 0;
        size_t kept = 0;
        while (before < threshold) {
          before += SoftmaxWeight(z[RankKeyToken(keys[kept++])], row_.max());
        }
        const Prefix prefix = row_.TopP(context_, threshold);
        EXPECT_EQ(prefix.last_token, static_cast<int32_t>(RankKeyToken(keys[kept - 1])));
        EXPECT_EQ(prefix.weight, before);
        // Each token of the prefix is found at the first and the last unit of its weight.
        uint64_t running = 0;
        for (int32_t token = 0; token < vocab && vocab <= 300; ++token) {
          const uint64_t weight = SoftmaxWeight(z[token], row_.max());
          if (!prefix.Contains(z[token], token) || weight == 0) continue;
          EXPECT_EQ(row_.TokenAtWeight(context_, running, prefix), token);
          EXPECT_EQ(row_.TokenAtWeight(context_, running + weight - 1, prefix), token);
          running += weight;
        }
      }
    }
  }
}

TEST_P(SoftmaxRowTest, LikelyTokensAreAllThatReachTheThreshold) {
  Random random(4);
  for (LogitKind kind :
       {LogitKind::kModel, LogitKind::kTies, LogitKind::kPeaked, LogitKind::kForbidden}) {
    const std::vector<float> z = RandomLogits(random, 1, 5000, kind);
    Prepare(z);
    for (int64_t count : {1, 5, 100, 156, 157, 5000}) {
      std::vector<Candidate> candidates;
      const float threshold = row_.CollectLikely(context_, count, candidates);
      EXPECT_EQ(threshold == -kInfinity, row_.CollectsAll(count));
      if (threshold > -kInfinity) {
        EXPECT_GE(static_cast<int64_t>(candidates.size()), count);
      }
      size_t next = 0;
      for (int32_t token = 0; token < 5000; ++token) {
        if (z[token] < threshold || z[token] == -kInfinity) continue;
        ASSERT_LT(next, candidates.size());
        EXPECT_EQ(candidates[next].token(), token);
        EXPECT_EQ(candidates[next].weight, SoftmaxWeight(z[token], row_.max()));
        ++next;
      }
      EXPECT_EQ(next, candidates.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, SoftmaxTest, testing::ValuesIn(CpuVariants(/*threads=*/{1})),
                         VariantName);
INSTANTIATE_TEST_SUITE_P(Cpu, SoftmaxRowTest, testing::ValuesIn(CpuVariants(/*threads=*/{1})),
                         VariantName);

}  // namespace
}  // namespace isobit
