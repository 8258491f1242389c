#include "kernels/numerics/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "tests/kernels/numerics/high_precision.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

static_assert(std::is_trivial_v<Bf16> && sizeof(Bf16) == 2);
static_assert(std::is_trivial_v<Fp16> && sizeof(Fp16) == 2);
static_assert(RoundToBf16(1.0f) == kOneBf16, "usable at compile time");

TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 x = {static_cast<uint16_t>(bits)};
    const bool nan = (bits & 0x7fff) > 0x7f80;
    EXPECT_EQ(RoundToBf16(ToFloat(x)), nan ? kCanonicalNanBf16 : x) << bits;
    EXPECT_EQ(TruncateToBf16(ToFloat(x)), nan ? kCanonicalNanBf16 : x) << bits;
    EXPECT_EQ(IsNan(ToFloat(x)), nan);
  }
}

// The two neighbours of x are compared by distance, which says nothing about how the rounding is
// done.
TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  int ties = 0;
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += 0x80 * 61 + 1) {
    // Every other input sits in the middle between two bf16.
    const uint32_t pattern =
        static_cast<uint32_t>((bits & 1) != 0 ? (bits & ~0xffffull) | 0x8000 : bits);
    const float x = BitsFloat(pattern);
    const Bf16 below = {static_cast<uint16_t>(pattern >> 16)};
    const Bf16 above = {static_cast<uint16_t>(below.bits + 1)};
    // The step from the largest finite number to 2^128 counts like any other.
    const double upper = above.bits == 0x7f80 ? 0x1p+128 : double{ToFloat(above)};
    const double to_below = double{x} - ToFloat(below), to_above = upper - x;
    Bf16 expected = to_below < to_above ? below : above;
    if (to_below == to_above) {
      expected = (below.bits & 1) == 0 ? below : above;
      ++ties;
    }
    ASSERT_EQ(RoundToBf16(x), expected) << std::hex << pattern;
    ASSERT_EQ(RoundToBf16(-x).bits, expected.bits | 0x8000) << std::hex << pattern;
    ASSERT_EQ(TruncateToBf16(x), below) << std::hex << pattern;
  }
  EXPECT_GT(ties, 1000);
}

TEST(Bf16, Specials) {
  EXPECT_EQ(RoundToBf16(kInfinity).bits, 0x7f80);
  EXPECT_EQ(RoundToBf16(-kInfinity).bits, 0xff80);
  EXPECT_EQ(RoundToBf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(TruncateToBf16(std::numeric_limits<float>::max()).bits, 0x7f7f);
  EXPECT_EQ(RoundToBf16(-0.0f).bits, 0x8000);
  // A NaN whose payload lies in the cut bits only must not become infinity.
  for (uint32_t nan : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu}) {
    EXPECT_EQ(RoundToBf16(BitsFloat(nan)), kCanonicalNanBf16);
    EXPECT_EQ(TruncateToBf16(BitsFloat(nan)), kCanonicalNanBf16);
    EXPECT_EQ(FloatBits(Canonical(BitsFloat(nan))), kCanonicalNanBits);
  }
  EXPECT_EQ(Canonical(-2.5f), -2.5f);
}

TEST(Fp16, EveryValueHasItsMeaning) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    const float got = ToFloat(Fp16{static_cast<uint16_t>(bits)});
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else if (exponent == 31) {
      EXPECT_EQ(got, sign * kInfinity) << bits;
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      EXPECT_EQ(got, sign * magnitude) << bits;
      EXPECT_EQ(std::signbit(got), sign < 0) << bits;
    }
  }
}

// Without a fused instruction the compiler calls the C library. An emulation in double would round
// twice: every other input lies so close to a tie that it would be caught.
TEST(HostDevice, FmaIsRoundedOnce) {
  RandomValues random(7);
  int twice_rounded_differs = 0;
  mpfr_t a, b, c;
  mpfr_inits2(24, a, b, c, static_cast<mpfr_ptr>(nullptr));
  for (int i = 0; i < 100000; ++i) {
    const float fraction = static_cast<float>(random.Below(1 << 23)) * 0x1p-23f;
    float x = 1.0f + fraction;
    float y = std::ldexp(1.0f + static_cast<float>(random.Below(1 << 23)) * 0x1p-23f, -20);
    float z = std::ldexp(1.0f + fraction, static_cast<int>(random.Below(60)) - 40);
    if (i % 2 == 0) {
      // x * y = 2^-24 (1 - 2^-2k) is just below half an ulp of z, whose last bit is odd.
      const int k = 15 + static_cast<int>(random.Below(6));
      x = 1.0f + std::ldexp(1.0f, -k);
      y = std::ldexp(1.0f - std::ldexp(1.0f, -k), -24);
      z = BitsFloat(FloatBits(1.0f + fraction) | 1u);
    }
    mpfr_set_flt(a, x, MPFR_RNDN);
    mpfr_set_flt(b, y, MPFR_RNDN);
    mpfr_set_flt(c, z, MPFR_RNDN);
    mpfr_fma(a, a, b, c, MPFR_RNDN);
    const float expected = mpfr_get_flt(a, MPFR_RNDN);
    ASSERT_EQ(FloatBits(ieee::Fma(x, y, z)), FloatBits(expected)) << x << " " << y << " " << z;
    if (static_cast<float>(double{x} * y + z) != expected) ++twice_rounded_differs;
  }
  EXPECT_GT(twice_rounded_differs, 10000) << "the inputs could not have told";
  mpfr_clears(a, b, c, static_cast<mpfr_ptr>(nullptr));

  // Subnormal results: 1.5 units go to the even 2, a little less to 1.
  EXPECT_EQ(FloatBits(ieee::Fma(0x1p-75f, 0x1p-75f, 0x1p-149f)), 2u);
  EXPECT_EQ(FloatBits(ieee::Fma(0x1.fffffep-76f, 0x1p-75f, 0x1p-149f)), 1u);
}

}  // namespace
}  // namespace isobit
