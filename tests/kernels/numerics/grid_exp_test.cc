#include "kernels/numerics/grid_exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/numerics/high_precision.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// 2^x rounded to the 8 bits of a bf16 significand by MPFR. REQUIRES: the result is normal.
class NearestByMpfr {
 public:
  NearestByMpfr() { mpfr_init2(nearest_, 8); }
  ~NearestByMpfr() { mpfr_clear(nearest_); }
  NearestByMpfr(const NearestByMpfr&) = delete;
  NearestByMpfr& operator=(const NearestByMpfr&) = delete;

  Bf16 operator()(float x) {
    mpfr_set_flt(x_.get(), x, MPFR_RNDN);
    mpfr_exp2(nearest_, x_.get(), MPFR_RNDN);
    return RoundToBf16(mpfr_get_flt(nearest_, MPFR_RNDN));  // exact
  }

 private:
  HighPrecision x_;
  mpfr_t nearest_;
};

// The theorem that makes the exponential a function: the borders between neighbouring bf16 in
// [1, 2] are (128 + k + 1/2) / 128, and no 2^(f/8192) comes nearer to one than 2^-20.53 relative.
TEST(GridExp2, TableIsNearestAndFarFromEveryBorder) {
  double nearest_border = 1;
  for (int f = 0; f < kGridSize; ++f) {
    const float x = static_cast<float>(f) / kGridSize;
    HighPrecision exact(x);
    mpfr_exp2(exact.get(), exact.get(), MPFR_RNDN);
    const double significand = 128.0 * exact.ToDouble();  // good to 2^-52, the margin is 2^-20
    ASSERT_EQ(kGridExpTable.fraction[f] + 128, std::lround(significand)) << f;
    const double border = std::floor(significand) + 0.5;
    nearest_border = std::min(nearest_border, std::fabs(significand - border) / significand);
  }
  std::printf("nearest to a border: 2^%.3f\n", std::log2(nearest_border));
  EXPECT_GT(nearest_border, std::exp2(-20.53));
  EXPECT_LT(nearest_border, std::exp2(-20.52)) << "the margin that the contract names";
}

// Every point that attention can reach: 1,572,865 of them.
TEST(GridExp2, EqualsMpfrOnTheWholeGrid) {
  NearestByMpfr nearest;
  for (int step = -126 * kGridSize; step <= 66 * kGridSize; ++step) {
    const float x = static_cast<float>(step) / kGridSize;
    const Bf16 got = GridExp2(x);
    ASSERT_EQ(got, nearest(x)) << x;
    // Any exponential good to 2^-21 is the same function; Exp2 is good to 2^-23.
    ASSERT_EQ(RoundToBf16(Exp2(x)), got) << x;
  }
}

TEST(GridExp2, Specials) {
  EXPECT_EQ(GridExp2(0.0f), kOneBf16);
  EXPECT_EQ(GridExp2(-0.0f), kOneBf16);
  EXPECT_EQ(GridExp2(-126.0f).bits, 0x0080) << "the smallest normal";
  EXPECT_EQ(GridExp2(std::nextafter(-126.0f, -127.0f)).bits, 0);
  EXPECT_EQ(GridExp2(-1000.0f).bits, 0);
  EXPECT_EQ(GridExp2(-kInfinity).bits, 0);
  EXPECT_EQ(GridExp2(66.0f).bits, (127 + 66) << 7);
  EXPECT_EQ(GridExp2(128.0f).bits, 0x7f80);
  EXPECT_EQ(GridExp2(128.0f - 0x1p-13f).bits, 0x7f80) << "rounds up to 2^128";
  EXPECT_EQ(GridExp2(kInfinity).bits, 0x7f80);
  EXPECT_EQ(GridExp2(BitsFloat(0xffc00000u)), kCanonicalNanBf16);
}

TEST(GridPoint, RoundsOnceToAMultipleOfTheGrid) {
  RandomValues random(1);
  const float c = 0x1.05309ep-3f;
  for (int i = 0; i < 100000; ++i) {
    const float s = static_cast<float>(random.Normal() * 150.0);
    const double exact = double{s} * c;  // exact in double: 48 bits
    if (std::fabs(exact) > 120.0) continue;
    const float x = GridPoint(s, c, 0.0f);
    ASSERT_EQ(x * kGridSize, std::nearbyint(exact * kGridSize)) << s;
    // The bucket shifts the point and nothing else: the grid is the same.
    ASSERT_EQ(GridPoint(s, c, 64.0f), x - 64.0f) << s;
    ASSERT_EQ(GridPoint(s, c, -64.0f), x + 64.0f) << s;
  }
  EXPECT_EQ(GridExp2(GridPoint(-kInfinity, c, 0.0f)).bits, 0);
}

}  // namespace
}  // namespace isobit
