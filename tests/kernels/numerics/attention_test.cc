#include "kernels/numerics/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/kernels/numerics/golden_hashes.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kHeadDim = 64;

// One head: a query and its keys and values by position.
struct Head {
  std::vector<Bf16> q = std::vector<Bf16>(kHeadDim);
  std::vector<std::vector<Bf16>> keys;
  std::vector<std::vector<Bf16>> values;
};

struct Range {
  int64_t first;
  int64_t last;
};

// The merged state of a row, before the division: fp32 shows what the rounding to bf16 would hide.
AttentionState AttendState(const Head& head, Range range, double softmax_scale) {
  AttentionState merged, split;
  for (int64_t s = range.first / kSplitKeys; s <= range.last / kSplitKeys; ++s) {
    AttendSplit(
        head.q.data(), kHeadDim, MakeAttentionScale(softmax_scale), s, range.first, range.last,
        [&](int64_t j) { return head.keys[static_cast<size_t>(j)].data(); },
        [&](int64_t j) { return head.values[static_cast<size_t>(j)].data(); }, split);
    MergeSplit(split, kHeadDim, merged);
  }
  return merged;
}

std::vector<Bf16> Attend(const Head& head, Range range, double softmax_scale = 0.125) {
  std::vector<Bf16> out(kHeadDim);
  AttendRow(
      head.q.data(), kHeadDim, MakeAttentionScale(softmax_scale), range.first, range.last,
      [&](int64_t j) { return head.keys[static_cast<size_t>(j)].data(); },
      [&](int64_t j) { return head.values[static_cast<size_t>(j)].data(); }, out.data());
  return out;
}

// The kinds of scores that the bounds are about. `score(j)` is what q . k_j should be; the query is
// a unit vector plus a little noise, so that chains have more than one term.
enum class Kind { kNormal, kPeaky, kRising, kFalling, kOutlier, kWild, kVeryNegative, kMixed };
constexpr Kind kKinds[] = {Kind::kNormal,  Kind::kPeaky, Kind::kRising,       Kind::kFalling,
                           Kind::kOutlier, Kind::kWild,  Kind::kVeryNegative, Kind::kMixed};

double ScoreOf(Kind kind, int64_t j, int64_t keys, RandomValues& random) {
  const double normal = random.Normal();
  const double where = static_cast<double>(j) / static_cast<double>(keys);
  switch (kind) {
    case Kind::kNormal:
      return 8.0 * normal;
    case Kind::kPeaky:
      return 40.0 * normal;
    case Kind::kRising:  // the bucket rises several times within a split
      return 4000.0 * where + 8.0 * normal;
    case Kind::kFalling:
      return 4000.0 - 4000.0 * where + 8.0 * normal;
    case Kind::kOutlier:
      return j == keys / 3 ? 3000.0 : 8.0 * normal;
    case Kind::kWild:  // sd 58 in log2 and far beyond T
      return 2000.0 * normal;
    case Kind::kVeryNegative:  // all below -T, so buckets are negative
      return -1500.0 + 200.0 * normal;
    case Kind::kMixed:  // blocks of every sign of bucket
      return (j / 64 % 3 - 1) * 1000.0 + 100.0 * normal;
  }
  return 0;
}

Head MakeHead(Kind kind, int64_t keys, uint64_t seed) {
  RandomValues random(seed);
  Head head;
  head.q[0] = kOneBf16;
  for (size_t d = 1; d < kHeadDim; ++d) head.q[d] = random.NormalBf16(0.125);
  for (int64_t j = 0; j < keys; ++j) {
    auto key = random.NormalRow(kHeadDim, 0.25);
    key[0] = RoundToBf16(static_cast<float>(ScoreOf(kind, j, keys, random)));
    // A second, finer part of the score, since a bf16 has 8 bits.
    key[1] = random.NormalBf16(8.0);
    head.keys.push_back(std::move(key));
    head.values.push_back(random.NormalRow(kHeadDim));
  }
  return head;
}

// ---- Contract 4 again, written from its text and not from attention.h: keys are first collected
// in a map of splits and blocks, buckets are whole numbers of 64, states are plain vectors, and the
// exponential is a double one rounded.

struct SplitResult {
  long bucket;  // M / 64
  float l;
  std::vector<float> o;
};

float TimesTwoToMinus64(float v, long times) {
  while (times-- > 0) v = v * std::ldexp(1.0f, -64);
  return v;
}

Bf16 NearestPower(float x) {
  if (std::isnan(x)) return kCanonicalNanBf16;
  return x < -126.0f ? Bf16{0} : RoundToBf16(static_cast<float>(std::exp2(double{x})));
}

SplitResult LiteralSplit(const Head& head, const std::map<int64_t, std::vector<int64_t>>& blocks,
                         float c, float threshold) {
  SplitResult r{0, 0.0f, std::vector<float>(kHeadDim, 0.0f)};
  bool first_block = true;
  for (const auto& [block, keys] : blocks) {
    std::map<int64_t, float> scores;
    float m = -kInfinity;
    for (int64_t j : keys) {
      scores[j] = DotChain(head.q.data(), head.keys[static_cast<size_t>(j)].data(), kHeadDim);
      if (!std::isnan(scores[j])) m = std::max(m, scores[j]);
    }
    long b = 0;
    if (!(std::fabs(m) < threshold)) {
      const float scaled = std::clamp(m * c, -8388608.0f, 8388608.0f);
      b = std::lround(std::trunc(scaled / 64.0f));
    }
    const long bucket = first_block ? b : std::max(r.bucket, b);
    if (!first_block && bucket > r.bucket) {
      r.l = TimesTwoToMinus64(r.l, bucket - r.bucket);
      for (float& o : r.o) o = TimesTwoToMinus64(o, bucket - r.bucket);
    }
    r.bucket = bucket;
    first_block = false;

    for (int64_t group = block * 64; group < block * 64 + 64; group += 16) {
      std::vector<Bf16> p(16, Bf16{0}), ones(16, kOneBf16);
      std::vector<std::vector<Bf16>> v(kHeadDim, std::vector<Bf16>(16, Bf16{0}));
      for (int64_t j = group; j < group + 16; ++j) {
        if (!scores.contains(j)) continue;
        const float shift = 1536.0f - 64.0f * static_cast<float>(bucket);
        p[static_cast<size_t>(j - group)] = NearestPower(std::fma(scores[j], c, shift) - 1536.0f);
        for (size_t d = 0; d < kHeadDim; ++d) {
          v[d][static_cast<size_t>(j - group)] = head.values[static_cast<size_t>(j)][d];
        }
      }
      r.l = Dot16(r.l, p.data(), ones.data());
      for (size_t d = 0; d < kHeadDim; ++d) r.o[d] = Dot16(r.o[d], p.data(), v[d].data());
    }
  }
  return r;
}

SplitResult LiteralState(const Head& head, Range range, double softmax_scale) {
  const float c = static_cast<float>(1.4426950408889634 * softmax_scale);
  float threshold = 1.0f;
  while (2.0 * threshold * c <= 66.0) threshold *= 2.0f;
  while (double{threshold} * c > 66.0) threshold /= 2.0f;

  std::map<int64_t, std::map<int64_t, std::vector<int64_t>>> splits;
  for (int64_t j = range.first; j <= range.last; ++j) splits[j / 1024][j / 64].push_back(j);
  std::vector<SplitResult> results;
  results.reserve(splits.size());
  for (const auto& [split, blocks] : splits) {
    results.push_back(LiteralSplit(head, blocks, c, threshold));
  }
  SplitResult total = results[0];
  for (size_t s = 1; s < results.size(); ++s) {
    SplitResult& next = results[s];
    const long bucket = std::max(total.bucket, next.bucket);
    for (SplitResult* side : {&total, &next}) {
      side->l = TimesTwoToMinus64(side->l, std::min(bucket - side->bucket, 100L));
      for (float& o : side->o) o = TimesTwoToMinus64(o, std::min(bucket - side->bucket, 100L));
    }
    total.bucket = bucket;
    total.l = total.l + next.l;
    for (size_t d = 0; d < kHeadDim; ++d) total.o[d] = total.o[d] + next.o[d];
  }
  return total;
}

// Both implementations agree in every bit of the state and of the output. AttendRow is the same
// calls, and has its own test.
void ExpectEqualsLiteral(const Head& head, Range range, double softmax_scale = 0.125) {
  SCOPED_TRACE(testing::Message() << "keys " << range.first << ".." << range.last << " scale "
                                  << softmax_scale);
  const SplitResult literal = LiteralState(head, range, softmax_scale);
  const AttentionState state = AttendState(head, range, softmax_scale);
  EXPECT_EQ(state.bucket, 64.0f * static_cast<float>(literal.bucket));
  EXPECT_EQ(FloatBits(state.l), FloatBits(literal.l));
  const float inverse = 1.0f / literal.l;
  std::vector<Bf16> out(kHeadDim);
  FinishAttention(state, kHeadDim, out.data());
  for (size_t d = 0; d < kHeadDim; ++d) {
    EXPECT_EQ(FloatBits(state.o[d]), FloatBits(literal.o[d])) << d;
    EXPECT_EQ(out[d], RoundToBf16(literal.o[d] * inverse)) << d;
  }
}

// ---- Softmax attention in double.

std::vector<double> ExactAttend(const Head& head, Range range, double softmax_scale = 0.125) {
  std::vector<double> scores;
  for (int64_t j = range.first; j <= range.last; ++j) {
    double s = 0;
    for (size_t d = 0; d < kHeadDim; ++d) {
      s += double{ToFloat(head.q[d])} * ToFloat(head.keys[static_cast<size_t>(j)][d]);
    }
    scores.push_back(s * softmax_scale);
  }
  const double m = *std::max_element(scores.begin(), scores.end());
  std::vector<double> out(kHeadDim, 0.0);
  double sum = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = std::exp(scores[i] - m);
    sum += p;
    for (size_t d = 0; d < kHeadDim; ++d) {
      out[d] += p * ToFloat(head.values[static_cast<size_t>(range.first) + i][d]);
    }
  }
  for (double& o : out) o /= sum;
  return out;
}

// ---- Constants

TEST(AttentionScale, Constants) {
  EXPECT_EQ(ScoreScale(64), 0x1.715476p-3f);  // log2(e) / 8 is exact in the scaling
  EXPECT_EQ(MakeAttentionScale(0.125).c, ScoreScale(64));
  for (int dim = 1; dim <= kMaxHeadDim; ++dim) {
    const float c = ScoreScale(dim);
    EXPECT_EQ(c, ScoreScaleFrom(1.0 / std::sqrt(static_cast<double>(dim)))) << dim;
    const double threshold = BucketThreshold(c);
    EXPECT_LE(threshold * c, 66.0) << dim;
    EXPECT_GT(2 * threshold * c, 66.0) << dim;
    EXPECT_EQ(std::exp2(std::round(std::log2(threshold))), threshold) << dim;
  }
  const std::pair<int, float> expected[] = {
      {64, 256}, {80, 256}, {96, 256}, {128, 512}, {256, 512}};
  for (auto [dim, threshold] : expected) EXPECT_EQ(BucketThreshold(ScoreScale(dim)), threshold);
}

TEST(Bucket, IsZeroBelowTheThresholdAndCutsTowardZeroBeyond) {
  const float c = 0.25f, threshold = 256.0f;
  EXPECT_EQ(Bucket(0.0f, c, threshold), 0.0f);
  EXPECT_EQ(Bucket(std::nextafter(256.0f, 0.0f), c, threshold), 0.0f);
  EXPECT_EQ(Bucket(256.0f, c, threshold), 64.0f);
  EXPECT_EQ(Bucket(-256.0f, c, threshold), -64.0f);
  EXPECT_EQ(Bucket(511.99f, c, threshold), 64.0f);
  EXPECT_EQ(Bucket(-511.99f, c, threshold), -64.0f);
  EXPECT_EQ(Bucket(512.0f, c, threshold), 128.0f);
  EXPECT_EQ(Bucket(300.0f, 0.18f, 256.0f), 0.0f) << "beyond T but within the first 64";
  EXPECT_EQ(Bucket(kInfinity, c, threshold), kBucketLimit);
  EXPECT_EQ(Bucket(-kInfinity, c, threshold), -kBucketLimit);
  EXPECT_EQ(Bucket(3e38f, 100.0f, threshold), kBucketLimit) << "the product overflows";
}

TEST(ScaleDown, StopsWhereItCanChangeNothing) {
  RandomValues random(1);
  for (int i = 0; i < 20000; ++i) {
    const float v = BitsFloat(static_cast<uint32_t>(random.Bits()));
    if (std::isnan(v)) continue;
    for (int steps : {0, 1, 2, 3, 4, 5, 6, 40}) {
      ASSERT_EQ(FloatBits(ScaleDown(v, steps)), FloatBits(TimesTwoToMinus64(v, steps))) << v;
    }
  }
  EXPECT_EQ(BucketSteps(kBucketLimit, -kBucketLimit), 1 << 18);
}

// ---- The whole function

class AttentionByKind : public testing::TestWithParam<Kind> {};

TEST_P(AttentionByKind, EqualsTheLiteralText) {
  const Head head = MakeHead(GetParam(), 2200, 10 + static_cast<uint64_t>(GetParam()));
  const Range ranges[] = {
      {0, 0},       {0, 1},     {0, 15},      {0, 16},      {0, 63},      {0, 64},
      {0, 1022},    {0, 1023},  {0, 1024},    {0, 2047},    {0, 2048},    {0, 2199},
      {5, 5},       {37, 100},  {500, 1023},  {1023, 1024}, {1024, 1024}, {1000, 2100},
      {1023, 2048}, {64, 2111}, {2190, 2199}, {960, 1087},  {1090, 1100},
  };
  for (const Range& range : ranges) ExpectEqualsLiteral(head, range);
  // Other scales, so that T and the buckets fall elsewhere.
  for (double scale : {0.01, 0.08838834764831845, 1.0}) ExpectEqualsLiteral(head, {3, 1500}, scale);
}

TEST_P(AttentionByKind, IsAccurate) {
  const Kind kind = GetParam();
  double error = 0, magnitude = 0;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const Head head = MakeHead(kind, 1500, 100 + seed);
    for (const Range& range : {Range{0, 1023}, Range{0, 1499}, Range{900, 1300}}) {
      const auto got = Attend(head, range);
      const auto exact = ExactAttend(head, range);
      for (size_t d = 0; d < kHeadDim; ++d) {
        error += std::pow(ToFloat(got[d]) - exact[d], 2);
        magnitude += exact[d] * exact[d];
      }
    }
  }
  const double relative = std::sqrt(error / magnitude);
  std::printf("kind %d: relative error %.2e\n", static_cast<int>(kind), relative);
  // Rounding the output to bf16 alone costs 1.7e-3; scores of thousands lose some of their last
  // bits in fp32 already.
  EXPECT_LT(relative, 4e-3);
}

std::string NameOf(const testing::TestParamInfo<Kind>& info) {
  const char* names[] = {"Normal",  "Peaky", "Rising",       "Falling",
                         "Outlier", "Wild",  "VeryNegative", "Mixed"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, AttentionByKind, testing::ValuesIn(kKinds), NameOf);

// Each kind is there to reach a rule; this says that it does.
TEST(Attention, KindsReachTheRules) {
  std::map<Kind, std::vector<float>> buckets;
  for (Kind kind : kKinds) {
    const Head head = MakeHead(kind, 1024, 10 + static_cast<uint64_t>(kind));
    AttentionState state;
    for (int64_t block = 0; block < 1024; block += kBlockKeys) {
      AttendBlock(
          head.q.data(), kHeadDim, MakeAttentionScale(0.125), block, 0, 1023,
          [&](int64_t j) { return head.keys[static_cast<size_t>(j)].data(); },
          [&](int64_t j) { return head.values[static_cast<size_t>(j)].data(); }, state);
      buckets[kind].push_back(state.bucket);
    }
  }
  EXPECT_EQ(buckets[Kind::kNormal], std::vector<float>(16, 0.0f));
  const auto rises = [&](Kind kind) {
    int count = 0;
    for (size_t i = 1; i < 16; ++i) count += buckets[kind][i] > buckets[kind][i - 1] ? 1 : 0;
    return count;
  };
  EXPECT_GE(rises(Kind::kRising), 5);
  EXPECT_EQ(rises(Kind::kFalling), 0);
  EXPECT_GT(buckets[Kind::kFalling][0], 512.0f);
  EXPECT_EQ(rises(Kind::kOutlier), 1);
  EXPECT_LT(buckets[Kind::kVeryNegative][0], -64.0f);
  EXPECT_LT(buckets[Kind::kVeryNegative][15], 0.0f);
  EXPECT_LT(buckets[Kind::kMixed][0], 0.0f);
  EXPECT_GT(buckets[Kind::kMixed][15], 0.0f);
}

TEST(Attention, ARowIsItsSplitsMergedAndFinished) {
  const Head head = MakeHead(Kind::kMixed, 2200, 2);
  for (const Range& range : {Range{0, 2199}, Range{1000, 1500}, Range{1024, 1030}}) {
    std::vector<Bf16> out(kHeadDim);
    FinishAttention(AttendState(head, range, 0.125), kHeadDim, out.data());
    EXPECT_EQ(Attend(head, range), out);
  }
}

TEST(Attention, OneKeyGivesItsValue) {
  for (Kind kind : kKinds) {
    const Head head = MakeHead(kind, 1100, 3);
    for (int64_t j : {0, 17, 1023, 1024}) {
      const auto got = Attend(head, {j, j});
      for (size_t d = 0; d < kHeadDim; ++d) {
        const float v = ToFloat(head.values[static_cast<size_t>(j)][d]);
        EXPECT_NEAR(ToFloat(got[d]), v, std::fabs(v) * 0x1p-8) << j;
      }
    }
  }
}

// Keys that a row does not see take no part, whatever their memory holds.
TEST(Attention, HiddenKeysDoNotExist) {
  for (Kind kind : kKinds) {
    const Head head = MakeHead(kind, 1400, 4);
    Head poisoned = head;
    for (int64_t j = 0; j < 1400; ++j) {
      if (j >= 130 && j <= 1260) continue;
      auto& key = poisoned.keys[static_cast<size_t>(j)];
      auto& value = poisoned.values[static_cast<size_t>(j)];
      std::fill(key.begin(), key.end(), j % 2 == 0 ? kCanonicalNanBf16 : Bf16{0x7f80});
      std::fill(value.begin(), value.end(), j % 3 == 0 ? kCanonicalNanBf16 : Bf16{0xff80});
    }
    EXPECT_EQ(Attend(poisoned, {130, 1260}), Attend(head, {130, 1260}));
  }
}

// The licence for kernels: while all |scores| stay below T, one pass over a split without blocks,
// buckets or a maximum gives the same state.
TEST(Attention, BlocksAreInvisibleWhileScoresAreSmall) {
  const Head head = MakeHead(Kind::kNormal, 1024, 5);
  const AttentionScale scale = MakeAttentionScale(0.125);
  const auto key_at = [&](int64_t j) { return head.keys[static_cast<size_t>(j)].data(); };
  const auto value_at = [&](int64_t j) { return head.values[static_cast<size_t>(j)].data(); };
  for (const Range& range : {Range{0, 1023}, Range{100, 900}, Range{3, 70}}) {
    AttentionState state;
    AttendSplit(head.q.data(), kHeadDim, scale, 0, range.first, range.last, key_at, value_at,
                state);
    std::vector<Bf16> p(1024, Bf16{0});
    for (int64_t j = range.first; j <= range.last; ++j) {
      const float s = DotChain(head.q.data(), key_at(j), kHeadDim);
      ASSERT_LT(std::fabs(s), scale.threshold);
      p[static_cast<size_t>(j)] = GridExp2(GridPoint(s, scale.c, 0.0f));
    }
    EXPECT_EQ(FloatBits(state.l), FloatBits(DotChain(0.0f, p.data(), 1, &kOneBf16, 0, 1024)));
    for (size_t d = 0; d < kHeadDim; ++d) {
      std::vector<Bf16> column;
      for (const auto& value : head.values) column.push_back(value[d]);
      EXPECT_EQ(FloatBits(state.o[d]), FloatBits(DotChain(p.data(), column.data(), 1024)));
    }
  }
}

TEST(Attention, NonFiniteScores) {
  const auto all_nan = [](const std::vector<Bf16>& row) {
    return std::all_of(row.begin(), row.end(), [](Bf16 x) { return x == kCanonicalNanBf16; });
  };
  Head head = MakeHead(Kind::kNormal, 1500, 6);
  const auto clean = Attend(head, {0, 1499});
  EXPECT_FALSE(all_nan(clean));

  Head nan = head;
  nan.keys[70][3] = kCanonicalNanBf16;
  EXPECT_TRUE(all_nan(Attend(nan, {0, 1499}))) << "one NaN score";
  EXPECT_EQ(Attend(nan, {71, 1499}), Attend(head, {71, 1499})) << "not seen, no harm";
  for (auto& key : nan.keys) key[3] = kCanonicalNanBf16;
  EXPECT_TRUE(all_nan(Attend(nan, {0, 1499}))) << "all scores NaN";

  Head infinite = head;
  infinite.keys[70][0] = Bf16{0x7f80};
  EXPECT_TRUE(all_nan(Attend(infinite, {0, 1499}))) << "+infinity";
  Head negative = head;
  negative.keys[70][0] = Bf16{0xff80};
  Head without = head;
  without.keys[70][0] = RoundToBf16(-3000.0f);  // p = 0 too, while m and so M stay
  EXPECT_EQ(Attend(negative, {0, 1499}), Attend(without, {0, 1499})) << "-infinity is p = 0";
  for (auto& key : negative.keys) key[0] = Bf16{0xff80};
  EXPECT_TRUE(all_nan(Attend(negative, {0, 1499}))) << "all scores -infinity";

  // A value that is infinite where p is not 0 reaches only its column.
  Head value = head;
  value.values[70][5] = Bf16{0x7f80};
  const auto got = Attend(value, {0, 1499});
  for (size_t d = 0; d < kHeadDim; ++d) {
    EXPECT_EQ(got[d], d == 5 ? Bf16{0x7f80} : clean[d]);
  }
}

// With head_dim 128, T * c = 65.3: a maximum just below T lies in bucket 64 by its size, but the
// rule says 0, as a kernel that only compares with T would have it.
TEST(Attention, ScoresBetween64AndTheThresholdKeepBucketZero) {
  const double scale = 1.0 / std::sqrt(128.0);
  Head head = MakeHead(Kind::kNormal, 200, 8);
  std::fill(head.q.begin() + 1, head.q.end(), Bf16{0});
  head.keys[77][0] = RoundToBf16(508.0f);
  const AttentionState state = AttendState(head, {0, 199}, scale);
  EXPECT_EQ(state.bucket, 0.0f);
  EXPECT_GT(state.l, 0x1p+64f);
  ExpectEqualsLiteral(head, {0, 199}, scale);
  head.keys[77][0] = RoundToBf16(512.0f);
  EXPECT_EQ(AttendState(head, {0, 199}, scale).bucket, 64.0f);
  ExpectEqualsLiteral(head, {0, 199}, scale);
}

TEST(Attention, TheSumIsInvertedAndThenMultiplied) {
  RandomValues random(9);
  AttentionState state;
  state.empty = false;
  int division_differs = 0;
  for (int i = 0; i < 200; ++i) {
    state.l = static_cast<float>(1.0 + 1000.0 * random.Uniform());
    for (int d = 0; d < kHeadDim; ++d) {
      // The result lies next to the border between two bf16.
      const uint32_t border = FloatBits(ToFloat(random.NormalBf16())) | 0x8000u;
      state.o[d] = BitsFloat(border) * state.l;
    }
    Bf16 out[kHeadDim];
    FinishAttention(state, kHeadDim, out);
    const float inverse = 1.0f / state.l;
    for (int d = 0; d < kHeadDim; ++d) {
      EXPECT_EQ(out[d], RoundToBf16(state.o[d] * inverse));
      if (out[d] != RoundToBf16(state.o[d] / state.l)) ++division_differs;
    }
  }
  EXPECT_GT(division_differs, 100) << "the inputs could not have told";
}

TEST(Attention, SlidingWindow) {
  EXPECT_EQ(FirstVisibleKey(100, 0), 0);
  EXPECT_EQ(FirstVisibleKey(100, 1), 100);
  EXPECT_EQ(FirstVisibleKey(100, 100), 1);
  EXPECT_EQ(FirstVisibleKey(100, 101), 0);
  EXPECT_EQ(FirstVisibleKey(100, 1000), 0);
  EXPECT_EQ(FirstVisibleKey(0, 1), 0);
}

// The same rows on every machine.
TEST(Attention, OutputsHaveTheGoldenHash) {
  std::vector<uint32_t> words;
  for (Kind kind : kKinds) {
    const Head head = MakeHead(kind, 1300, 7);
    for (const Range& range : {Range{0, 40}, Range{0, 1299}, Range{333, 1100}}) {
      for (Bf16 x : Attend(head, range)) words.push_back(x.bits);
    }
  }
  EXPECT_EQ(HashOfWords(words), GoldenHash("attention_rows"));
}

}  // namespace
}  // namespace isobit
