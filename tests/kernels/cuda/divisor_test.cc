// Division by multiplication is division, at every quotient's borders. Needs no GPU.

#include "kernels/cuda/divisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace isobit::cuda {
namespace {

void ExpectDivides(int value, int64_t x) {
  const Divisor divisor(value);
  ASSERT_EQ(divisor.Divide(static_cast<int>(x)), x / value) << x << " / " << value;
  ASSERT_EQ(divisor.Remainder(static_cast<int>(x)), x % value) << x << " % " << value;
}

// Heads a group, tokens a page, and what lies between.
TEST(DivisorTest, AroundMultiples) {
  for (int value = 1; value <= 1100; ++value) {
    const int64_t limit = std::min((int64_t{1} << 32) / value, int64_t{1} << 31);
    const int64_t quotients = limit / value;
    const int64_t step = std::max<int64_t>(1, quotients / 500);
    for (int64_t q = 0; q <= quotients; q += step) {
      for (int64_t x : {q * value - 1, q * value, q * value + 1}) {
        if (x >= 0 && x < limit) ExpectDivides(value, x);
      }
    }
    ExpectDivides(value, limit - 1);
  }
}

TEST(DivisorTest, LargeDivisors) {
  for (int value : {4096, 65535, 65536, 1000003, 2147483647}) {
    EXPECT_EQ(Divisor(value).value(), value);
    for (int64_t x : {0, 1}) ExpectDivides(value, x);
    ExpectDivides(value, ((int64_t{1} << 32) - 1) / value);
  }
}

}  // namespace
}  // namespace isobit::cuda
