#include "kernels/numerics/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/numerics/golden_hashes.h"
#include "tests/kernels/numerics/high_precision.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A prime: all exponents and about 54,000 significands.
constexpr uint32_t kStride = 39119;

TEST(Exp2, WithinOneUlpAtAStride) {
  HighPrecision exact;
  double worst = 0;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += kStride) {
    const float x = BitsFloat(static_cast<uint32_t>(bits));
    if (std::isnan(x) || std::fabs(x) > 160.0f) continue;
    mpfr_set_flt(exact.get(), x, MPFR_RNDN);
    mpfr_exp2(exact.get(), exact.get(), MPFR_RNDN);
    if (x >= 128.0f) {
      EXPECT_EQ(Exp2(x), kInfinity);
      continue;
    }
    worst = std::max(worst, UlpError(Exp2(x), exact));
  }
  EXPECT_LT(worst, 0.85);
  EXPECT_GT(worst, 0.5) << "the reference can't be so good";
}

TEST(Exp2, Specials) {
  for (int n = -149; n <= 127; ++n) {
    EXPECT_EQ(Exp2(static_cast<float>(n)), std::ldexp(1.0f, n)) << n;
  }
  EXPECT_EQ(FloatBits(Exp2(-150.0f)), 0u);
  EXPECT_EQ(FloatBits(Exp2(std::nextafter(-150.0f, 0.0f))), 1u);
  EXPECT_EQ(Exp2(128.0f), kInfinity);
  EXPECT_LT(Exp2(std::nextafter(128.0f, 0.0f)), kInfinity);
  EXPECT_EQ(Exp2(kInfinity), kInfinity);
  EXPECT_EQ(FloatBits(Exp2(-kInfinity)), 0u);
  EXPECT_EQ(Exp2(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(Exp2(-0.0f), 1.0f);
  EXPECT_EQ(FloatBits(Exp2(BitsFloat(0xffc12345u))), kCanonicalNanBits);
}

TEST(Log, WithinOneUlpAtAStride) {
  HighPrecision exact;
  double worst = 0;
  const auto check = [&](float x) {
    mpfr_set_flt(exact.get(), x, MPFR_RNDN);
    mpfr_log(exact.get(), exact.get(), MPFR_RNDN);
    worst = std::max(worst, UlpError(Log(x), exact));
  };
  for (uint64_t bits = 1; bits < 0x7f800000u; bits += kStride) {
    check(BitsFloat(static_cast<uint32_t>(bits)));
  }
  // Near 1 the result is small and its relative error at risk.
  for (uint32_t bits = 0x3f700000u; bits < 0x3f880000u; bits += 101) check(BitsFloat(bits));
  EXPECT_LT(worst, 0.85);
  EXPECT_GT(worst, 0.5) << "the reference can't be so good";
}

TEST(Log, Specials) {
  EXPECT_EQ(FloatBits(Log(1.0f)), 0u);
  EXPECT_EQ(Log(0.0f), -kInfinity);
  EXPECT_EQ(Log(-0.0f), -kInfinity);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  for (float x : {-1.0f, -0x1p-149f, -kInfinity, BitsFloat(0x7f800001u), BitsFloat(0xffffffffu)}) {
    EXPECT_EQ(FloatBits(Log(x)), kCanonicalNanBits) << x;
  }
}

TEST(Silu, IsTheFourOperationsOfTheContract) {
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += kStride) {
    const float x = BitsFloat(static_cast<uint32_t>(bits));
    const float product = x * -1.44269504f;
    const float denominator = 1.0f + Exp2(product);
    const float expected = x / denominator;
    EXPECT_EQ(FloatBits(Silu(x)), std::isnan(expected) ? kCanonicalNanBits : FloatBits(expected));
  }
  EXPECT_EQ(FloatBits(Silu(0.0f)), 0u);
  EXPECT_EQ(FloatBits(Silu(-0.0f)), 0x80000000u);
  EXPECT_EQ(Silu(kInfinity), kInfinity);
  EXPECT_EQ(FloatBits(Silu(-kInfinity)), kCanonicalNanBits);
  EXPECT_EQ(FloatBits(Silu(-100.0f)), 0x80000000u);
}

// What a model sees: all bf16 gates. The error of fp32 must vanish in the rounding to bf16, nearly
// always.
TEST(Silu, RoundsToTheNearestBf16ForAlmostEveryGate) {
  HighPrecision exact;
  int different = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 gate = {static_cast<uint16_t>(bits)};
    const float x = ToFloat(gate);
    if (std::isnan(x) || std::isinf(x) || x < -88.0f) continue;
    // x / (1 + exp(-x))
    mpfr_set_flt(exact.get(), -x, MPFR_RNDN);
    mpfr_exp(exact.get(), exact.get(), MPFR_RNDN);
    mpfr_add_ui(exact.get(), exact.get(), 1, MPFR_RNDN);
    mpfr_d_div(exact.get(), x, exact.get(), MPFR_RNDN);
    const Bf16 got = SiluGate(gate, kOneBf16);
    if (got != RoundToBf16(mpfr_get_flt(exact.get(), MPFR_RNDN))) ++different;
  }
  EXPECT_LE(different, 2);
}

TEST(Silu, GateRoundsTwice) {
  const Bf16 up = RoundToBf16(1.4453125f);
  int rounding_once_differs = 0;
  for (uint16_t bits = 0x3f00; bits < 0x4100; ++bits) {
    const float activated = Silu(ToFloat(Bf16{bits}));
    const Bf16 got = SiluGate(Bf16{bits}, up);
    EXPECT_EQ(got, RoundToBf16(ToFloat(RoundToBf16(activated)) * ToFloat(up)));
    if (got != RoundToBf16(activated * ToFloat(up))) ++rounding_once_differs;
  }
  EXPECT_GT(rounding_once_differs, 10) << "the inputs could not have told";
}

// tanh's form in high precision, over all gates that a GEMM can give.
TEST(GeluTanh, IsNearTheExactFunctionForEveryBf16) {
  HighPrecision exact, cube;
  double worst = 0;
  for (uint32_t bits = 0; bits <= 0xffffu; ++bits) {
    const float x = ToFloat(Bf16{static_cast<uint16_t>(bits)});
    if (!std::isfinite(x) || std::fabs(x) > 1e6f) continue;
    mpfr_set_flt(cube.get(), x, MPFR_RNDN);
    mpfr_pow_ui(cube.get(), cube.get(), 3, MPFR_RNDN);
    mpfr_mul_d(cube.get(), cube.get(), 0.044715, MPFR_RNDN);
    mpfr_add_d(cube.get(), cube.get(), x, MPFR_RNDN);
    mpfr_mul_d(cube.get(), cube.get(), std::sqrt(2.0 / std::acos(-1.0)), MPFR_RNDN);
    mpfr_tanh(exact.get(), cube.get(), MPFR_RNDN);
    mpfr_add_d(exact.get(), exact.get(), 1.0, MPFR_RNDN);
    mpfr_mul_d(exact.get(), exact.get(), 0.5 * static_cast<double>(x), MPFR_RNDN);
    const double expected = mpfr_get_d(exact.get(), MPFR_RNDN);
    // Far out on the left the rounded exponent costs accuracy, as with SiLU.
    const double scale = std::max(std::fabs(expected), 1e-6 * std::fabs(static_cast<double>(x)));
    if (scale > 0) {
      worst = std::max(worst, std::fabs(static_cast<double>(GeluTanh(x)) - expected) / scale);
    }
  }
  EXPECT_LT(worst, 0x1p-19);
  EXPECT_GT(worst, 0x1p-26) << "the reference can't be so good";
}

TEST(GeluTanh, Specials) {
  EXPECT_EQ(FloatBits(GeluTanh(0.0f)), 0u);
  EXPECT_EQ(GeluTanh(kInfinity), kInfinity);
  EXPECT_EQ(GeluTanh(1e30f), 1e30f);
  EXPECT_EQ(GeluTanh(-1e30f), 0.0f);
  EXPECT_EQ(FloatBits(GeluTanh(-kInfinity)), kCanonicalNanBits);
  EXPECT_EQ(FloatBits(GeluTanh(BitsFloat(0xffc12345u))), kCanonicalNanBits);
  EXPECT_EQ(GeluGate(RoundToBf16(1.0f), RoundToBf16(2.0f)).bits,
            RoundToBf16(2.0f * ToFloat(RoundToBf16(GeluTanh(1.0f)))).bits);
}

TEST(SoftCap, IsWithinItsBoundOfTanh) {
  HighPrecision exact;
  for (float cap : {0.5f, 30.0f, 50.0f}) {
    double worst = 0;
    for (uint64_t bits = 0; bits <= 0xffffffffu; bits += kStride) {
      const float x = BitsFloat(static_cast<uint32_t>(bits));
      if (std::isnan(x)) continue;
      mpfr_set_flt(exact.get(), x, MPFR_RNDN);
      mpfr_div_d(exact.get(), exact.get(), cap, MPFR_RNDN);
      mpfr_tanh(exact.get(), exact.get(), MPFR_RNDN);
      mpfr_mul_d(exact.get(), exact.get(), cap, MPFR_RNDN);
      const double error =
          static_cast<double>(SoftCap(x, cap)) - mpfr_get_d(exact.get(), MPFR_RNDN);
      worst = std::max(worst, std::fabs(error) / static_cast<double>(cap));
      EXPECT_EQ(SoftCap(-x, cap), -SoftCap(x, cap));
    }
    EXPECT_LT(worst, 0x1p-22);
    EXPECT_GT(worst, 0x1p-27) << "the reference can't be so good";
  }
  EXPECT_EQ(SoftCap(kInfinity, 30.0f), 30.0f);
  EXPECT_EQ(SoftCap(-kInfinity, 30.0f), -30.0f);
  EXPECT_EQ(SoftCap(12.5f, 0.0f), 12.5f) << "no cap";
  EXPECT_EQ(FloatBits(SoftCap(BitsFloat(0xffc12345u), 30.0f)), kCanonicalNanBits);
}

TEST(ScalarFunctions, OutputsHaveTheGoldenHashes) {
  EXPECT_EQ(HashAtStride(kHashStride, Exp2), GoldenHash("exp2_stride"));
  EXPECT_EQ(HashAtStride(kHashStride, Log), GoldenHash("log_stride"));
  EXPECT_EQ(HashAtStride(kHashStride, Silu), GoldenHash("silu_stride"));
}

}  // namespace
}  // namespace isobit
