// Exp2, Log and Silu on all 2^32 inputs: error bounds, and one hash over all outputs.
//
// The reference is the C library's double function, good to about 2^-52 and so to 2^-28 ulp of
// fp32. It only judges; the worst case of every chunk is judged again by MPFR, so a bad C library
// shows as a difference between the two.

#include <gtest/gtest.h>
#include <xxhash.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/numerics/scalar.h"
#include "tests/kernels/numerics/golden_hashes.h"
#include "tests/kernels/numerics/high_precision.h"

namespace isobit {
namespace {

constexpr uint64_t kChunk = uint64_t{1} << 22;
constexpr uint64_t kChunks = (uint64_t{1} << 32) / kChunk;

struct Worst {
  double ulps = 0;
  float input = 0;
};

// Runs check(chunk, first input) for all chunks on all cores.
template <typename Check>
void ForEachChunk(Check&& check) {
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (uint64_t chunk = next++; chunk < kChunks; chunk = next++) check(chunk);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ulps(x, y) is the error of y = function(x) in ulps as judged in double, or a negative number if
// there is nothing to judge; exact(x, result) is the same by MPFR. Returns the worst and checks the
// hash over all outputs.
template <typename Function, typename Ulps, typename Exact>
Worst Exhaust(const std::string& name, Function&& function, Ulps&& ulps, Exact&& exact) {
  std::vector<uint32_t> hashes(2 * kChunks);
  std::vector<Worst> worst(kChunks);
  std::atomic<uint64_t> judged{0};
  ForEachChunk([&](uint64_t chunk) {
    std::vector<uint32_t> outputs(kChunk);
    uint64_t count = 0;
    for (uint64_t i = 0; i < kChunk; ++i) {
      const float x = BitsFloat(static_cast<uint32_t>(chunk * kChunk + i));
      const float y = function(x);
      outputs[i] = FloatBits(y);
      const double error = ulps(x, y);
      if (error >= 0) ++count;
      if (error > worst[chunk].ulps || std::isnan(error)) worst[chunk] = {error, x};
    }
    judged += count;
    const uint64_t hash = XXH3_64bits(outputs.data(), 4 * outputs.size());
    hashes[2 * chunk] = static_cast<uint32_t>(hash);
    hashes[2 * chunk + 1] = static_cast<uint32_t>(hash >> 32);
    if (worst[chunk].ulps > 0) {
      HighPrecision value;
      exact(worst[chunk].input, value.get());
      EXPECT_NEAR(UlpError(function(worst[chunk].input), value), worst[chunk].ulps, 1e-6);
    }
    mpfr_free_cache();
  });
  EXPECT_EQ(HashOfWords(hashes), GoldenHash(name));
  Worst overall;
  for (const Worst& w : worst) {
    EXPECT_FALSE(std::isnan(w.ulps)) << w.input;
    if (w.ulps > overall.ulps) overall = w;
  }
  std::printf("%s: %llu inputs judged, worst error %.5f ulp at %a\n", name.c_str(),
              static_cast<unsigned long long>(judged.load()), overall.ulps, overall.input);
  return overall;
}

double UlpsOf(float got, double exact) {
  const double value = std::isinf(got) ? std::copysign(0x1p+128, got) : double{got};
  return std::fabs(value - exact) / UlpOfFloat(exact);
}

TEST(ScalarExhaustive, Exp2) {
  std::atomic<uint64_t> wrong_special{0};
  const auto ulps = [&](float x, float y) -> double {
    const bool special_ok = std::isnan(x)             ? FloatBits(y) == kCanonicalNanBits
                            : x >= 128.0f             ? FloatBits(y) == 0x7f800000u
                            : x <= -150.0f            ? FloatBits(y) == 0u
                            : std::fabs(x) < 0x1p-26f ? y == 1.0f
                                                      : true;
    if (!special_ok) ++wrong_special;
    // Where the result is known there is nothing to judge.
    if (!(std::fabs(x) >= 0x1p-26f) || x >= 128.0f || x <= -150.0f) return -1;
    return UlpsOf(y, std::exp2(double{x}));
  };
  const auto exact = [](float x, mpfr_ptr result) {
    mpfr_set_flt(result, x, MPFR_RNDN);
    mpfr_exp2(result, result, MPFR_RNDN);
  };
  const Worst worst = Exhaust("exp2_all", Exp2, ulps, exact);
  EXPECT_EQ(wrong_special, 0u);
  EXPECT_LT(worst.ulps, 1.0);
}

TEST(ScalarExhaustive, Log) {
  std::atomic<uint64_t> wrong_special{0};
  const auto ulps = [&](float x, float y) -> double {
    if (x > 0.0f && !std::isinf(x)) {
      if (x == 1.0f) return FloatBits(y) == 0u ? 0.0 : 1e9;
      return UlpsOf(y, std::log(double{x}));
    }
    const uint32_t expected = x == 0.0f                ? 0xff800000u
                              : std::isinf(x) && x > 0 ? 0x7f800000u
                                                       : kCanonicalNanBits;
    if (FloatBits(y) != expected) ++wrong_special;
    return -1;
  };
  const auto exact = [](float x, mpfr_ptr result) {
    mpfr_set_flt(result, x, MPFR_RNDN);
    mpfr_log(result, result, MPFR_RNDN);
  };
  const Worst worst = Exhaust("log_all", Log, ulps, exact);
  EXPECT_EQ(wrong_special, 0u);
  EXPECT_LT(worst.ulps, 1.0);
}

// The product x * log2(e) is rounded before exp2 sees it, which costs up to |x| / 2 ulp where
// exp(-x) counts. Judged by that, and exactly where the result is a matter of definition.
TEST(ScalarExhaustive, Silu) {
  std::atomic<uint64_t> wrong_special{0};
  std::atomic<uint64_t> beyond_bound{0};
  const auto ulps = [&](float x, float y) -> double {
    const bool special_ok = std::isnan(x) ? FloatBits(y) == kCanonicalNanBits
                            : std::isinf(x)
                                ? FloatBits(y) == (x > 0 ? 0x7f800000u : kCanonicalNanBits)
                            : x < -89.0f              ? FloatBits(y) == 0x80000000u
                            : x > 18.0f               ? y == x
                            : std::fabs(x) < 0x1p-26f ? std::fabs(y - x / 2) <= 0x1p-149f
                                                      : true;
    if (!special_ok) ++wrong_special;
    // Below -88 exp(-x) overflows soon and the result is -0 instead of some 1e-37.
    if (!(x > -88.0f) || x > 18.0f || std::fabs(x) < 0x1p-26f) return -1;
    const double error = UlpsOf(y, x / (1.0 + std::exp(-double{x})));
    if (error > 2.0 + (x < 0 ? 1.5 * -x : 0.0)) ++beyond_bound;
    return error;
  };
  const auto exact = [](float x, mpfr_ptr result) {
    mpfr_set_flt(result, -x, MPFR_RNDN);
    mpfr_exp(result, result, MPFR_RNDN);
    mpfr_add_ui(result, result, 1, MPFR_RNDN);
    mpfr_d_div(result, x, result, MPFR_RNDN);
  };
  const Worst worst = Exhaust("silu_all", Silu, ulps, exact);
  EXPECT_EQ(wrong_special, 0u);
  EXPECT_EQ(beyond_bound, 0u);
  EXPECT_LT(worst.ulps, 128.0);
}

}  // namespace
}  // namespace isobit
