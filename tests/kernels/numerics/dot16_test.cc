#include "kernels/numerics/dot16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/numerics/random_values.h"

namespace isobit {
namespace {

// As recorded on the hardware: d = dot16(c, a, b).
template <typename T>
struct Step {
  T a[kDotTerms];
  T b[kDotTerms];
  float c;
  float d;
};
static_assert(sizeof(Step<Bf16>) == 72 && sizeof(Step<Fp16>) == 72);

template <typename Record>
std::vector<Record> ReadGolden(const std::string& name) {
  const std::string path = std::string(ISOBIT_SOURCE_DIR) + "/golden/numerics/" + name;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  EXPECT_TRUE(file) << path;
  const auto bytes = static_cast<size_t>(file.tellg());
  EXPECT_EQ(bytes % sizeof(Record), 0u) << path;
  std::vector<Record> records(bytes / sizeof(Record));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(records.data()), static_cast<std::streamsize>(bytes));
  EXPECT_TRUE(file) << path;
  return records;
}

template <typename T>
void ExpectEveryStepEqual(const std::string& name, size_t count) {
  const auto steps = ReadGolden<Step<T>>(name);
  ASSERT_EQ(steps.size(), count);
  size_t different = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step<T>& s = steps[i];
    const uint32_t got = FloatBits(Dot16(s.c, s.a, s.b));
    if (got == FloatBits(s.d)) continue;
    if (different++ == 0) {
      ADD_FAILURE() << name << " record " << i << std::hex << ": got " << got << ", recorded "
                    << FloatBits(s.d) << ", c " << FloatBits(s.c);
    }
  }
  EXPECT_EQ(different, 0u) << "of " << count;
}

TEST(Dot16, EqualsEveryRecordedStep) {
  ExpectEveryStepEqual<Bf16>("mma_bf16_k16_sm90.bin", 57344);
  ExpectEveryStepEqual<Fp16>("mma_fp16_k16_sm90.bin", 32768);
}

TEST(Dot16, EqualsEveryRecordedEdge) {
  ExpectEveryStepEqual<Bf16>("mma_bf16_k16_edges_sm90.bin", 8011);
  ExpectEveryStepEqual<Fp16>("mma_fp16_k16_edges_sm90.bin", 1536);
}

TEST(Dot16, ChainsOf4096EqualTheRecordedOnes) {
  constexpr int kRows = 16, kColumns = 32, kDepth = 4096;
  struct Chains {
    Bf16 a[kRows][kDepth];
    Bf16 b[kColumns][kDepth];
    float c[kRows][kColumns];
  };
  const auto sets = ReadGolden<Chains>("chain_bf16_k4096_sm90.bin");
  ASSERT_EQ(sets.size(), 2u);
  for (const Chains& set : sets) {
    for (int m = 0; m < kRows; ++m) {
      for (int n = 0; n < kColumns; ++n) {
        EXPECT_EQ(FloatBits(DotChain(set.a[m], set.b[n], kDepth)), FloatBits(set.c[m][n]))
            << m << " " << n;
      }
    }
  }
}

TEST(Dot16, OrderWithinAGroupAndSidesAreInvisible) {
  auto steps = ReadGolden<Step<Bf16>>("mma_bf16_k16_sm90.bin");
  RandomValues random(1);
  for (size_t i = 0; i < steps.size(); i += 7) {
    Step<Bf16> s = steps[i];
    for (int j = kDotTerms - 1; j > 0; --j) {
      const auto k = random.Below(j + 1);
      std::swap(s.a[j], s.a[k]);
      std::swap(s.b[j], s.b[k]);
    }
    ASSERT_EQ(FloatBits(Dot16(s.c, s.a, s.b)), FloatBits(s.d)) << i;
    ASSERT_EQ(FloatBits(Dot16(s.c, s.b, s.a)), FloatBits(s.d)) << i;
  }
}

TEST(Dot16, OrderOfGroupsIsVisible) {
  RandomValues random(2);
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const auto a = random.NormalRow(32), b = random.NormalRow(32);
    const float forth = Dot16(Dot16(0.0f, a.data(), b.data()), a.data() + 16, b.data() + 16);
    const float back = Dot16(Dot16(0.0f, a.data() + 16, b.data() + 16), a.data(), b.data());
    if (FloatBits(forth) != FloatBits(back)) ++different;
    EXPECT_EQ(FloatBits(forth), FloatBits(DotChain(a.data(), b.data(), 32)));
  }
  EXPECT_GT(different, 20);
}

// What lets kernels pad K, skip masked groups, or not.
TEST(Dot16, AStepOfZerosChangesNoResult) {
  const Bf16 zeros[kDotTerms] = {};
  Bf16 negative_zeros[kDotTerms];
  std::fill(std::begin(negative_zeros), std::end(negative_zeros), Bf16{0x8000});
  RandomValues random(3);
  for (const char* name : {"mma_bf16_k16_sm90.bin", "mma_bf16_k16_edges_sm90.bin"}) {
    for (const Step<Bf16>& s : ReadGolden<Step<Bf16>>(name)) {
      ASSERT_NE(FloatBits(s.d), 0x80000000u) << "no step returns -0";
      ASSERT_EQ(FloatBits(Dot16(s.d, zeros, zeros)), FloatBits(s.d));
      Bf16 finite[kDotTerms];
      for (Bf16& x : finite) x = random.FiniteBf16();
      ASSERT_EQ(FloatBits(Dot16(s.d, negative_zeros, finite)), FloatBits(s.d));
    }
  }
}

TEST(Dot16, TheTailOfKIsPaddedWithZeros) {
  RandomValues random(4);
  for (int64_t k = 0; k <= 70; ++k) {
    auto a = random.NormalRow(80), b = random.NormalRow(80);
    const float got = DotChain(a.data(), b.data(), k);
    std::fill(a.begin() + k, a.end(), Bf16{0});
    EXPECT_EQ(FloatBits(got), FloatBits(DotChain(a.data(), b.data(), 80))) << k;
  }
  // Nothing dropped: ones add up to K for every K.
  const std::vector<Bf16> ones(5000, kOneBf16);
  for (int64_t k = 0; k <= 5000; k += k < 100 ? 1 : 61) {
    EXPECT_EQ(DotChain(ones.data(), ones.data(), k), static_cast<float>(k));
  }
}

TEST(Dot16, Strides) {
  RandomValues random(5);
  const auto a = random.NormalRow(111), b = random.NormalRow(185);  // 37 with strides 3 and 5
  std::vector<Bf16> dense_a, dense_b;
  for (size_t i = 0; i < 37; ++i) {
    dense_a.push_back(a[3 * i]);
    dense_b.push_back(b[5 * i]);
  }
  EXPECT_EQ(FloatBits(Dot16(0.5f, a.data(), 3, b.data(), 5)),
            FloatBits(Dot16(0.5f, dense_a.data(), dense_b.data())));
  EXPECT_EQ(FloatBits(DotChain(0.5f, a.data(), 3, b.data(), 5, 37)),
            FloatBits(DotChain(0.5f, dense_a.data(), 1, dense_b.data(), 1, 37)));
  // Stride 0 repeats one element: a row sum.
  EXPECT_EQ(FloatBits(Dot16(0.0f, dense_a.data(), 1, &kOneBf16, 0)),
            FloatBits(Dot16(0.0f, dense_a.data(), std::vector<Bf16>(16, kOneBf16).data())));
}

// The rules of contract 1 one by one, with inputs whose result can be worked out by hand.
TEST(Dot16, RulesByHand) {
  const auto dot = [](float c, std::vector<std::pair<float, float>> products) {
    Bf16 a[kDotTerms] = {}, b[kDotTerms] = {};
    for (size_t i = 0; i < products.size(); ++i) {
      a[i] = RoundToBf16(products[i].first);
      b[i] = RoundToBf16(products[i].second);
      EXPECT_EQ(ToFloat(a[i]), products[i].first);
      EXPECT_EQ(ToFloat(b[i]), products[i].second);
    }
    return Dot16(c, a, b);
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const uint32_t nan = kCanonicalNanBits;

  // Terms are cut at 2^-25 below the largest exponent, each by its magnitude.
  EXPECT_EQ(dot(1.0f, {{0x1p-24f, 1.0f}, {0x1p-24f, 1.0f}}), 1.0f + 0x1p-23f);
  EXPECT_EQ(dot(-1.0f, {{1.0f, 1.0f}, {0x1p-25f, 1.0f}}), 0x1p-25f);
  EXPECT_EQ(dot(-1.0f, {{1.0f, 1.0f}, {0x1.8p-26f, 1.0f}, {0x1.8p-26f, 1.0f}}), 0.0f);
  EXPECT_EQ(dot(-1.0f, {{1.0f, 1.0f}, {-0x1.8p-25f, 1.0f}}), -0x1p-25f);
  // The significand of a product is not normalised: 1.5 * 1.5 = 2.25 has exponent 0, so 2^-25
  // stays. As C, 2.25 has exponent 1.
  EXPECT_EQ(dot(0.0f, {{1.5f, 1.5f}, {-1.5f, 1.5f}, {0x1p-25f, 1.0f}}), 0x1p-25f);
  EXPECT_EQ(dot(-2.25f, {{1.5f, 1.5f}, {0x1p-25f, 1.0f}}), 0.0f);
  // Rounding is toward zero on both sides.
  EXPECT_EQ(dot(1.0f, {{0x1.8p-24f, 1.0f}}), 1.0f);
  EXPECT_EQ(dot(-1.0f, {{-0x1.8p-24f, 1.0f}}), -1.0f);
  // Zeros take no part in the alignment, whatever their partner.
  EXPECT_EQ(dot(0x1p-100f, {{0.0f, 0x1p+120f}}), 0x1p-100f);
  // A result that is zero is +0.
  EXPECT_EQ(FloatBits(dot(-0.0f, {{-0.0f, 1.0f}})), 0u);
  EXPECT_EQ(FloatBits(dot(0.0f, {{-0x1p-80f, 0x1p-80f}})), 0u);
  EXPECT_EQ(FloatBits(dot(-1.0f, {{1.0f, 1.0f}})), 0u);
  // Subnormals, in and out.
  EXPECT_EQ(dot(0.0f, {{0x1p-133f, 0x1p+10f}}), 0x1p-123f);
  EXPECT_EQ(dot(0.0f, {{0x1p-75f, 0x1.8p-74f}}), 0x1p-149f);
  // The lowest exponent to align to is -133: at its unit of 2^-158, 2^-158 stays and half goes.
  EXPECT_EQ(dot(0.0f, {{0x1p-74f, 0x1p-75f}, {-0x1p-79f, 0x1p-79f}}), 0.0f);
  EXPECT_EQ(dot(0.0f, {{0x1p-74f, 0x1p-75f}, {-0x1p-79f, 0x1p-80f}}), 0x1p-149f);
  // Overflow and specials.
  EXPECT_EQ(dot(0.0f, {{0x1p+64f, 0x1p+64f}}), infinity);
  EXPECT_EQ(dot(0.0f, {{-0x1p+127f, 0x1p+127f}}), -infinity);
  EXPECT_EQ(dot(0x1p+100f, {{0x1p+127f, 0x1p+127f}, {-0x1p+127f, 0x1p+127f}}), 0.0f);
  EXPECT_EQ(dot(-0x1p+127f, {{infinity, 1.0f}}), infinity);
  EXPECT_EQ(FloatBits(dot(0.0f, {{infinity, 0.0f}})), nan);
  EXPECT_EQ(FloatBits(dot(0.0f, {{0.0f, -infinity}})), nan);
  EXPECT_EQ(FloatBits(dot(-infinity, {{infinity, 1.0f}})), nan);
  EXPECT_EQ(FloatBits(dot(0.0f, {{infinity, 1.0f}, {infinity, -1.0f}})), nan);
  EXPECT_EQ(FloatBits(dot(BitsFloat(0xffc00001u), {{1.0f, 1.0f}})), nan);
}

TEST(Dot16, UsableAtCompileTime) {
  constexpr Bf16 kOnes[kDotTerms] = {kOneBf16, kOneBf16, kOneBf16};
  static_assert(Dot16(0.5f, kOnes, kOnes) == 3.5f);
}

// How far a chain drifts: each step cuts toward zero.
TEST(Dot16, ChainsAreAccurate) {
  RandomValues random(6);
  double error = 0, magnitude = 0;
  for (int i = 0; i < 20; ++i) {
    const auto a = random.NormalRow(4096), b = random.NormalRow(4096);
    double exact = 0;
    for (size_t k = 0; k < a.size(); ++k) exact += double{ToFloat(a[k])} * ToFloat(b[k]);
    error += std::pow(DotChain(a.data(), b.data(), 4096) - exact, 2);
    magnitude += exact * exact;
  }
  EXPECT_LT(std::sqrt(error / magnitude), 6e-6);
}

}  // namespace
}  // namespace isobit
