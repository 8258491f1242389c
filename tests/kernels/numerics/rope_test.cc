#include "kernels/numerics/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/numerics/golden_hashes.h"
#include "tests/kernels/numerics/high_precision.h"
#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

constexpr double kThetas[] = {1.0,      1.5, 10000.0, 100000.0, 150000.0,
                              500000.0, 1e6, 5e6,     1e7,      0x1p+100};
constexpr int kDims[] = {2, 6, 64, 80, 96, 128, 256};

TEST(RopeInvFreq, IsTheNearestDouble) {
  HighPrecision theta, power;
  for (double t : kThetas) {
    for (int dim : kDims) {
      std::vector<double> inv_freq(static_cast<size_t>(dim / 2));
      RopeInvFreq(dim, t, inv_freq.data());
      for (int i = 0; i < dim / 2; ++i) {
        mpfr_set_d(theta.get(), t, MPFR_RNDN);
        mpfr_set_si(power.get(), -2L * i, MPFR_RNDN);
        mpfr_div_si(power.get(), power.get(), dim, MPFR_RNDN);
        mpfr_pow(power.get(), theta.get(), power.get(), MPFR_RNDN);
        ASSERT_EQ(inv_freq[static_cast<size_t>(i)], power.ToDouble())
            << t << " " << dim << " " << i;
      }
    }
  }
}

// cos and sin of one angle against MPFR; adds to `not_nearest`.
void CheckAngle(double angle, int* not_nearest) {
  HighPrecision x(angle), sin, cos;
  mpfr_sin_cos(sin.get(), cos.get(), x.get(), MPFR_RNDN);
  const CosSin got = CosSinOf(angle);
  ASSERT_LE(UlpError(got.cos, cos), 0.5001) << angle;
  ASSERT_LE(UlpError(got.sin, sin), 0.5001) << angle;
  if (got.cos != mpfr_get_flt(cos.get(), MPFR_RNDN)) ++*not_nearest;
  if (got.sin != mpfr_get_flt(sin.get(), MPFR_RNDN)) ++*not_nearest;
}

TEST(CosSin, NearestForPositionsAndFrequenciesOfModels) {
  int not_nearest = 0;
  for (double theta : {10000.0, 500000.0, 1e7}) {
    double inv_freq[64];
    RopeInvFreq(128, theta, inv_freq);
    for (int64_t position = 0; position <= (1 << 24); position += position < 100 ? 1 : 104729) {
      for (double f : inv_freq) CheckAngle(static_cast<double>(position) * f, &not_nearest);
    }
    for (double f : inv_freq) CheckAngle(0x1p+24 * f, &not_nearest);
  }
  EXPECT_EQ(not_nearest, 0);
}

// Angles next to multiples of pi/2, where one of the two nearly vanishes and the range reduction
// has to hold its relative accuracy.
TEST(CosSin, NearestWhereOneVanishes) {
  HighPrecision half_pi, multiple;
  mpfr_const_pi(half_pi.get(), MPFR_RNDN);
  mpfr_div_ui(half_pi.get(), half_pi.get(), 2, MPFR_RNDN);
  int not_nearest = 0;
  double smallest = 1;
  for (unsigned long n = 1; n < 10700000; n += n < 20000 ? 1 : 1999) {
    mpfr_mul_ui(multiple.get(), half_pi.get(), n, MPFR_RNDN);
    const double angle = multiple.ToDouble();
    CheckAngle(angle, &not_nearest);
    CheckAngle(std::nextafter(angle, 0.0), &not_nearest);
    const CosSin got = CosSinOf(angle);
    smallest = std::min({smallest, std::fabs(double{got.cos}), std::fabs(double{got.sin})});
  }
  // The doubles below 2^30 that are nearest to a multiple of pi/2 for their size, from continued
  // fractions: 2^-60.5 to 2^-52.
  for (double angle : {0x1.6c6cbc45dc8dep+5, 0x1.b951f1572eba5p+23, 0x1.b951f1572eba5p+29,
                       0x1.39c6fd67805a7p+18, 0x1.9eb7148f354d6p+20, 0x1.55202aefde314p+29,
                       0x1.67e57cdd4dc54p+15, 0x1.4456bdcf64b08p+24}) {
    CheckAngle(angle, &not_nearest);
    CheckAngle(-angle, &not_nearest);
    const CosSin got = CosSinOf(angle);
    smallest = std::min({smallest, std::fabs(double{got.cos}), std::fabs(double{got.sin})});
  }
  EXPECT_EQ(not_nearest, 0);
  EXPECT_LT(smallest, 0x1p-60) << "the angles were meant to be hard";
}

TEST(CosSin, RandomAnglesOfEverySize) {
  RandomValues random(1);
  int not_nearest = 0;
  for (int i = 0; i < 40000; ++i) {
    const double magnitude =
        std::ldexp(1.0 + random.Uniform(), static_cast<int>(random.Below(70)) - 40);
    CheckAngle(i % 2 == 0 ? magnitude : -magnitude, &not_nearest);
  }
  EXPECT_EQ(not_nearest, 0);
  EXPECT_EQ(CosSinOf(0.0).cos, 1.0f);
  EXPECT_EQ(FloatBits(CosSinOf(0.0).sin), 0u);
}

// Llama 3's rule once more, in long double and by cases.
TEST(RopeScaling, Llama3) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = 32.0;
  scaling.low_freq_factor = 1.0;
  scaling.high_freq_factor = 4.0;
  scaling.original_max_positions = 8192.0;
  double plain[32], scaled[32];
  RopeInvFreq(64, 500000.0, plain);
  std::copy(plain, plain + 32, scaled);
  ScaleRopeInvFreq(scaling, 500000.0, 32, scaled);
  int kept = 0, divided = 0, blended = 0;
  for (int i = 0; i < 32; ++i) {
    const long double wavelength = 2 * std::acos(-1.0L) / plain[i];
    if (wavelength < 8192.0L / 4) {
      EXPECT_EQ(scaled[i], plain[i]);
      ++kept;
    } else if (wavelength > 8192.0L) {
      EXPECT_EQ(scaled[i], plain[i] / 32);
      ++divided;
    } else {
      const long double smooth = (8192.0L / wavelength - 1) / (4 - 1);
      const long double expected = (1 - smooth) * plain[i] / 32 + smooth * plain[i];
      EXPECT_NEAR(scaled[i] / static_cast<double>(expected), 1.0, 1e-14);
      ++blended;
    }
  }
  EXPECT_GT(kept, 5);
  EXPECT_GT(divided, 5);
  EXPECT_GT(blended, 1);
}

TEST(RopeScaling, LinearAndNone) {
  double plain[32], scaled[32];
  RopeInvFreq(64, 10000.0, plain);
  std::copy(plain, plain + 32, scaled);
  ScaleRopeInvFreq(RopeScaling{}, 10000.0, 32, scaled);
  EXPECT_TRUE(std::equal(plain, plain + 32, scaled));
  RopeScaling linear;
  linear.kind = RopeScaling::Kind::kLinear;
  linear.factor = 3.0;
  ScaleRopeInvFreq(linear, 10000.0, 32, scaled);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(scaled[i], plain[i] / 3.0);
}

// YaRN's rule once more, in long double, as the paper's code has it.
TEST(RopeScaling, Yarn) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = 4.0;
  scaling.original_max_positions = 32768.0;
  constexpr int kPairs = 64;
  constexpr long double kTheta = 1000000.0L;
  for (bool truncate : {true, false}) {
    scaling.truncate = truncate;
    double plain[kPairs], scaled[kPairs];
    RopeInvFreq(2 * kPairs, static_cast<double>(kTheta), plain);
    std::copy(plain, plain + kPairs, scaled);
    ScaleRopeInvFreq(scaling, static_cast<double>(kTheta), kPairs, scaled);
    const auto dimension = [&](long double turns) {
      return 2 * kPairs * std::log(32768.0L / (turns * 2 * std::acos(-1.0L))) /
             (2 * std::log(kTheta));
    };
    const long double low = truncate ? std::floor(dimension(32)) : dimension(32);
    const long double high = truncate ? std::ceil(dimension(1)) : dimension(1);
    int kept = 0, divided = 0, blended = 0;
    for (int i = 0; i < kPairs; ++i) {
      const long double ramp = std::clamp((i - low) / (high - low), 0.0L, 1.0L);
      const long double expected = plain[i] / 4 * ramp + plain[i] * (1 - ramp);
      EXPECT_NEAR(scaled[i] / static_cast<double>(expected), 1.0, 1e-13) << i;
      ++(ramp == 0 ? kept : ramp == 1 ? divided : blended);
    }
    EXPECT_GT(kept, 5);
    EXPECT_GT(divided, 5);
    EXPECT_GT(blended, 5);
  }
  EXPECT_FLOAT_EQ(YarnAttentionFactor(4.0), 1.1386294f);
  EXPECT_EQ(YarnAttentionFactor(1.0), 1.0f);
}

// An original context so short that a frequency makes less than one turn in it.
TEST(RopeScaling, YarnOfAShortContext) {
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = 2.0;
  scaling.original_max_positions = 4.0;
  double plain[8], scaled[8];
  RopeInvFreq(16, 10000.0, plain);
  std::copy(plain, plain + 8, scaled);
  ScaleRopeInvFreq(scaling, 10000.0, 8, scaled);
  for (int i = 0; i < 8; ++i) {
    EXPECT_LE(scaled[i], plain[i]);
    EXPECT_GE(scaled[i], plain[i] / 2);
  }
}

TEST(RopeTable, TakesTheAttentionFactor) {
  double inv_freq[16];
  RopeInvFreq(32, 10000.0, inv_freq);
  float cos[16], sin[16], cos1[16], sin1[16];
  RopeTableRow(77, inv_freq, 16, cos1, sin1);
  RopeTableRow(77, inv_freq, 16, cos, sin, 1.25f);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(cos[i], cos1[i] * 1.25f);
    EXPECT_EQ(sin[i], sin1[i] * 1.25f);
  }
}

TEST(RopeTable, HasTheGoldenHash) {
  double inv_freq[64];
  RopeInvFreq(128, 500000.0, inv_freq);
  std::vector<uint32_t> words;
  for (int64_t position = 0; position < 8192; position += 3) {
    float cos[64], sin[64];
    RopeTableRow(position, inv_freq, 64, cos, sin);
    for (int i = 0; i < 64; ++i) {
      const CosSin direct = CosSinOf(static_cast<double>(position) * inv_freq[i]);
      ASSERT_EQ(cos[i], direct.cos);
      ASSERT_EQ(sin[i], direct.sin);
      words.push_back(FloatBits(cos[i]));
      words.push_back(FloatBits(sin[i]));
    }
  }
  EXPECT_EQ(HashOfWords(words), GoldenHash("rope_table"));
}

TEST(Rotation, IsTheOperationsOfTheContract) {
  RandomValues random(2);
  for (int i = 0; i < 10000; ++i) {
    const float x1 = ToFloat(random.NormalBf16()), x2 = ToFloat(random.NormalBf16());
    const CosSin t = CosSinOf(random.Uniform() * 1000.0);
    float y1 = 0, y2 = 0;
    RotatePair(x1, x2, t.cos, t.sin, &y1, &y2);
    const float product1 = x2 * t.sin, product2 = x1 * t.sin;
    ASSERT_EQ(FloatBits(y1), FloatBits(std::fma(x1, t.cos, -product1)));
    ASSERT_EQ(FloatBits(y2), FloatBits(std::fma(x2, t.cos, product2)));
  }
}

TEST(Rotation, PairsAreHalfAHeadApartAndTheRestIsCopied) {
  RandomValues random(3);
  const auto x = random.NormalRow(80);
  float cos[20], sin[20];
  for (int i = 0; i < 20; ++i) {
    cos[i] = CosSinOf(0.1 * i).cos;
    sin[i] = CosSinOf(0.1 * i).sin;
  }
  std::vector<Bf16> out(80);
  RotateHead(x.data(), 80, 40, cos, sin, out.data());
  for (size_t i = 0; i < 20; ++i) {
    float y1 = 0, y2 = 0;
    RotatePair(ToFloat(x[i]), ToFloat(x[i + 20]), cos[i], sin[i], &y1, &y2);
    EXPECT_EQ(out[i], RoundToBf16(y1));
    EXPECT_EQ(out[i + 20], RoundToBf16(y2));
  }
  EXPECT_TRUE(std::equal(x.begin() + 40, x.end(), out.begin() + 40));
  auto in_place = x;
  RotateHead(in_place.data(), 80, 40, cos, sin, in_place.data());
  EXPECT_EQ(in_place, out);
}

}  // namespace
}  // namespace isobit
