#include "kernels/cpu/norm.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/backend.h"
#include "tests/kernels/cpu/inputs.h"

namespace isobit {
namespace {

class NormTest : public CpuVariantTest {
 protected:
  // Runs `rows` rows picked by `row_index` (or all, if it is empty) on both backends.
  void ExpectEqual(int64_t rows, int64_t width, const std::vector<Bf16>& x,
                   const std::vector<Bf16>& weight, const std::vector<int32_t>& row_index = {}) {
    std::vector<Bf16> got(rows * width), want(rows * width);
    RmsNorm op;
    op.rows = rows;
    op.width = width;
    op.eps = 1e-5f;
    op.x = x.data();
    op.row_index = row_index.empty() ? nullptr : row_index.data();
    op.weight = weight.data();
    op.out = want.data();
    reference::Run(op);
    op.out = got.data();
    RunRmsNorm(context_, op);
    EXPECT_TRUE(SameBits(got, want, width)) << rows << " rows of " << width;
  }
};

TEST_P(NormTest, EveryNumberOfRows) {
  Random random(1);
  constexpr int64_t kWidth = 576;
  for (int64_t rows = 1; rows <= 65; ++rows) {
    ExpectEqual(rows, kWidth, RandomBf16s(random, rows * kWidth, Values::kNormal),
                RandomBf16s(random, kWidth, Values::kNormal));
  }
}

TEST_P(NormTest, RaggedWidths) {
  Random random(2);
  for (int64_t width :
       {1, 7, 8, 9, 63, 64, 96, 127, 128, 129, 1000, 1023, 1024, 1025, 1032, 2049, 4096, 14336}) {
    for (int64_t rows : {1, 3}) {
      ExpectEqual(rows, width, RandomBf16s(random, rows * width, Values::kNormal),
                  RandomBf16s(random, width, Values::kNormal));
    }
  }
}

TEST_P(NormTest, ExtremeValues) {
  Random random(3);
  constexpr int64_t kRows = 31, kWidth = 1160;
  for (Values values : {Values::kWide, Values::kAdversarial}) {
    ExpectEqual(kRows, kWidth, RandomBf16s(random, kRows * kWidth, values),
                RandomBf16s(random, kWidth, values));
  }
  // Sums of squares that are zero, subnormal, and infinite.
  for (uint16_t bits : {0x0000, 0x8000, 0x0001, 0x1a00, 0x1f80, 0x2080, 0x7f7f, 0xff7f}) {
    ExpectEqual(1, kWidth, std::vector<Bf16>(kWidth, Bf16{bits}),
                RandomBf16s(random, kWidth, Values::kNormal));
  }
}

TEST_P(NormTest, PicksRows) {
  Random random(4);
  constexpr int64_t kWidth = 320;
  const std::vector<Bf16> x = RandomBf16s(random, 40 * kWidth, Values::kNormal);
  ExpectEqual(5, kWidth, x, RandomBf16s(random, kWidth, Values::kNormal), {39, 0, 7, 7, 20});
}

// A row's bits do not depend on where it stands, nor on neighbours that are NaN.
TEST_P(NormTest, RowsDoNotAffectEachOther) {
  Random random(5);
  constexpr int64_t kWidth = 576;
  const std::vector<Bf16> row = RandomBf16s(random, kWidth, Values::kNormal);
  const std::vector<Bf16> weight = RandomBf16s(random, kWidth, Values::kNormal);
  std::vector<Bf16> alone(kWidth);
  RmsNorm op;
  op.rows = 1;
  op.width = kWidth;
  op.eps = 1e-6f;
  op.x = row.data();
  op.weight = weight.data();
  op.out = alone.data();
  RunRmsNorm(context_, op);
  for (int64_t rows : {2, 31, 32, 33, 64}) {
    for (int64_t place : {int64_t{0}, rows / 2, rows - 1}) {
      std::vector<Bf16> x(rows * kWidth, kCanonicalNanBf16);
      std::copy(row.begin(), row.end(), x.begin() + place * kWidth);
      std::vector<Bf16> out(rows * kWidth);
      op.rows = rows;
      op.x = x.data();
      op.out = out.data();
      RunRmsNorm(context_, op);
      const auto begin = out.begin() + place * kWidth;
      EXPECT_TRUE(SameBits(std::vector<Bf16>(begin, begin + kWidth), alone, kWidth));
    }
  }
}

// fp32 weights, one rounding, a residual that is overwritten.
TEST_P(NormTest, WideWeights) {
  Random random(6);
  for (Values values : {Values::kNormal, Values::kWide, Values::kAdversarial}) {
    for (int64_t width : {1, 7, 64, 129, 1032}) {
      constexpr int64_t kRows = 3;
      const std::vector<Bf16> x = RandomBf16s(random, kRows * width, values);
      const std::vector<Bf16> residual = RandomBf16s(random, kRows * width, values);
      std::vector<float> weight(width);
      for (float& w : weight) w = random.Normal(1.0f, 0.3f);
      RmsNorm op;
      op.rows = kRows;
      op.width = width;
      op.eps = 1e-6f;
      op.x = x.data();
      op.wide_weight = weight.data();
      for (bool with_residual : {false, true}) {
        std::vector<Bf16> want = residual, got = residual;
        op.out = want.data();
        op.residual = with_residual ? want.data() : nullptr;
        reference::Run(op);
        op.out = got.data();
        op.residual = with_residual ? got.data() : nullptr;
        RunRmsNorm(context_, op);
        EXPECT_TRUE(SameBits(got, want, width)) << width << " with residual: " << with_residual;
      }
    }
  }
}

// Heads inside of rows that hold more, in place.
TEST_P(NormTest, GroupsInPlace) {
  Random random(7);
  constexpr int64_t kRows = 4, kWidth = 48, kGroups = 3, kStride = 5 * kWidth;
  const std::vector<Bf16> x = RandomBf16s(random, kRows * kStride, Values::kNormal);
  const std::vector<Bf16> weight = RandomBf16s(random, kWidth, Values::kNormal);
  std::vector<float> wide_weight(kWidth);
  for (float& w : wide_weight) w = random.Normal(1.0f, 0.3f);
  for (bool wide : {false, true}) {
    std::vector<Bf16> want = x, got = x;
    RmsNorm op;
    op.rows = kRows;
    op.width = kWidth;
    op.groups = kGroups;
    op.stride = kStride;
    op.eps = 1e-6f;
    op.weight = wide ? nullptr : weight.data();
    op.wide_weight = wide ? wide_weight.data() : nullptr;
    op.x = op.out = got.data();
    RunRmsNorm(context_, op);
    // Each head by itself; the rest of a row stays as it is.
    op.rows = op.groups = 1;
    op.stride = 0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t g = 0; g < kGroups; ++g) {
        op.x = op.out = want.data() + r * kStride + g * kWidth;
        reference::Run(op);
      }
    }
    EXPECT_TRUE(SameBits(got, want, kStride)) << wide;
    EXPECT_FALSE(SameBits(got, x, kStride));
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, NormTest, testing::ValuesIn(CpuVariants()), VariantName);

}  // namespace
}  // namespace isobit
