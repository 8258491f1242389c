#include "kernels/numerics/row_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

// Contract 3 once more, written the other way round: lanes are collected first, then each is summed
// and a tree is folded by recursion.
float FoldLanes(const std::vector<float>& lanes, size_t first, size_t stride) {
  // The leaves of lane l's last step are lanes l and l + 1, before that l + 2, ...
  if (stride == lanes.size()) return lanes[first];
  return FoldLanes(lanes, first, 2 * stride) + FoldLanes(lanes, first + stride, 2 * stride);
}

template <typename Accumulate>
float SumByLanes(int64_t n, Accumulate&& accumulate) {
  std::vector<float> lanes;
  for (int64_t lane = 0; lane < 128; ++lane) {
    float sum = 0.0f;
    for (int64_t block = 0; block * 1024 < n; ++block) {
      for (int64_t i = block * 1024 + lane * 8; i < block * 1024 + lane * 8 + 8; ++i) {
        if (i < n) sum = accumulate(sum, i);
      }
    }
    lanes.push_back(sum);
  }
  return FoldLanes(lanes, 0, 1);
}

TEST(RowSum, FollowsTheLanesOfTheContract) {
  RandomValues random(1);
  int sequential_differs = 0;
  for (int64_t n :
       {1, 7, 8, 9, 31, 32, 33, 64, 127, 576, 1023, 1024, 1025, 1536, 3000, 4096, 8192}) {
    std::vector<Bf16> x;
    std::vector<float> y;
    for (int64_t i = 0; i < n; ++i) {
      x.push_back(random.SpreadBf16(8));
      y.push_back(static_cast<float>(random.Normal()));
    }
    const auto at = [&](int64_t i) { return ToFloat(x[static_cast<size_t>(i)]); };
    EXPECT_EQ(
        FloatBits(SumOfSquares(x.data(), n)),
        FloatBits(SumByLanes(n, [&](float s, int64_t i) { return std::fma(at(i), at(i), s); })))
        << n;
    EXPECT_EQ(
        FloatBits(SumFloat(y.data(), n)),
        FloatBits(SumByLanes(n, [&](float s, int64_t i) { return s + y[static_cast<size_t>(i)]; })))
        << n;
    float sequential = 0.0f;
    for (float v : y) sequential += v;
    if (sequential != SumFloat(y.data(), n)) ++sequential_differs;
  }
  EXPECT_GT(sequential_differs, 5) << "the inputs could not have told";
}

TEST(RowSum, LanesCanBeFilledInAnyOrderAsLongAsEachAscends) {
  RandomValues random(2);
  constexpr int64_t kSize = 5000;
  const auto x = random.NormalRow(kSize);
  RowSum by_lane;
  for (int lane = RowSum::kLanes - 1; lane >= 0; --lane) {
    for (int64_t i = 0; i < kSize; ++i) {
      if (RowSum::LaneOf(i) == lane) by_lane.AddSquare(i, ToFloat(x[static_cast<size_t>(i)]));
    }
  }
  EXPECT_EQ(FloatBits(by_lane.Total()), FloatBits(SumOfSquares(x.data(), kSize)));
}

TEST(RowSum, NothingIsLostOrCountedTwice) {
  for (int64_t n = 0; n < 3000; ++n) {
    const std::vector<float> ones(static_cast<size_t>(n), 1.0f);
    ASSERT_EQ(SumFloat(ones.data(), n), static_cast<float>(n));
  }
}

TEST(RmsNorm, IsTheOperationsOfTheContract) {
  RandomValues random(3);
  for (int64_t n : {31, 32, 33, 64, 576, 4096}) {
    const auto x = random.NormalRow(n, 3.0), w = random.NormalRow(n);
    const float ss = SumOfSquares(x.data(), n);
    const float mean = ss / static_cast<float>(n);
    const float shifted = mean + 1e-5f;
    const float root = std::sqrt(shifted);
    const float r = 1.0f / root;
    EXPECT_EQ(FloatBits(RmsScale(ss, n, 1e-5f)), FloatBits(r));
    std::vector<Bf16> out(x.size());
    RmsNormRow(x.data(), w.data(), n, 1e-5f, out.data());
    double exact_ss = 0;
    for (Bf16 v : x) exact_ss += double{ToFloat(v)} * ToFloat(v);
    const double exact_r = 1.0 / std::sqrt(exact_ss / static_cast<double>(n) + 1e-5);
    for (size_t i = 0; i < out.size(); ++i) {
      const float scaled = ToFloat(x[i]) * r;
      const float weighted = ToFloat(RoundToBf16(scaled)) * ToFloat(w[i]);
      EXPECT_EQ(out[i], RoundToBf16(weighted));
      const double exact = ToFloat(x[i]) * exact_r * ToFloat(w[i]);
      EXPECT_NEAR(ToFloat(out[i]), exact, std::fabs(exact) * 0x1p-7);
    }
  }
}

TEST(RmsNorm, ExtremeRows) {
  const std::vector<Bf16> zeros(64, Bf16{0}), ones(64, kOneBf16);
  std::vector<Bf16> out(64);
  RmsNormRow(zeros.data(), ones.data(), 64, 1e-6f, out.data());
  for (Bf16 y : out) EXPECT_EQ(y.bits, 0);
  // Squares that overflow give a scale of 0; a NaN fills its row with the canonical NaN.
  const std::vector<Bf16> large(64, RoundToBf16(0x1p+100f));
  RmsNormRow(large.data(), ones.data(), 64, 1e-6f, out.data());
  for (Bf16 y : out) EXPECT_EQ(y.bits, 0);
  std::vector<Bf16> nan = ones;
  nan[5] = Bf16{0xffc0};
  RmsNormRow(nan.data(), ones.data(), 64, 1e-6f, out.data());
  for (Bf16 y : out) EXPECT_EQ(y, kCanonicalNanBf16);
}

TEST(RmsNorm, InPlace) {
  RandomValues random(4);
  auto x = random.NormalRow(100);
  const auto w = random.NormalRow(100);
  std::vector<Bf16> out(100);
  RmsNormRow(x.data(), w.data(), 100, 1e-5f, out.data());
  RmsNormRow(x.data(), w.data(), 100, 1e-5f, x.data());
  EXPECT_EQ(x, out);
}

}  // namespace
}  // namespace isobit
