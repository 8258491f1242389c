#ifndef ISOBIT_KERNELS_NUMERICS_DOUBLE_DOUBLE_H_
#define ISOBIT_KERNELS_NUMERICS_DOUBLE_DOUBLE_H_

// Numbers as unevaluated sums of two doubles, about 106 bits: enough that a function computed with
// them and rounded to double is the nearest double, and so the same on every machine. Used at load
// time, for the tables of rotary embeddings.
//
// The algorithms are the textbook ones of Dekker (1971) and Knuth; see Hida, Li and Bailey,
// "Algorithms for quad-double precision floating point arithmetic" (2001).

#include <cstdint>

#include "kernels/numerics/host_device.h"

namespace isobit {

struct DoubleDouble {
  double high;  // the sum rounded to double
  double low;   // what is left of it
};

// a + b exactly.
ISOBIT_HOST_DEVICE inline DoubleDouble TwoSum(double a, double b) {
  const double sum = ieee::Add(a, b);
  const double b_part = ieee::Sub(sum, a);
  const double a_part = ieee::Sub(sum, b_part);
  return {sum, ieee::Add(ieee::Sub(a, a_part), ieee::Sub(b, b_part))};
}

// a + b exactly. REQUIRES: |a| >= |b| or a = 0.
ISOBIT_HOST_DEVICE inline DoubleDouble FastTwoSum(double a, double b) {
  const double sum = ieee::Add(a, b);
  return {sum, ieee::Sub(b, ieee::Sub(sum, a))};
}

// a * b exactly, unless it underflows.
ISOBIT_HOST_DEVICE inline DoubleDouble TwoProduct(double a, double b) {
  const double product = ieee::Mul(a, b);
  return {product, ieee::Fma(a, b, -product)};
}

ISOBIT_HOST_DEVICE inline DoubleDouble Add(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = TwoSum(a.high, b.high);
  const DoubleDouble low = TwoSum(a.low, b.low);
  const DoubleDouble sum = FastTwoSum(high.high, ieee::Add(high.low, low.high));
  return FastTwoSum(sum.high, ieee::Add(sum.low, low.low));
}

ISOBIT_HOST_DEVICE inline DoubleDouble Multiply(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = TwoProduct(a.high, b.high);
  const double cross = ieee::Fma(a.high, b.low, ieee::Mul(a.low, b.high));
  return FastTwoSum(product.high, ieee::Add(product.low, cross));
}

ISOBIT_HOST_DEVICE inline DoubleDouble Divide(DoubleDouble a, DoubleDouble b) {
  // Long division: three digits of 53 bits, of which the last only corrects.
  const double first = ieee::Div(a.high, b.high);
  DoubleDouble rest = Add(a, Multiply(b, {-first, 0.0}));
  const double second = ieee::Div(rest.high, b.high);
  rest = Add(rest, Multiply(b, {-second, 0.0}));
  const double third = ieee::Div(rest.high, b.high);
  return Add(FastTwoSum(first, second), {third, 0.0});
}

namespace double_double_internal {

inline constexpr DoubleDouble kLn2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

// 2^n for n in [-1022, 1023].
ISOBIT_HOST_DEVICE constexpr double PowerOfTwo(int n) {
  return __builtin_bit_cast(double, static_cast<uint64_t>(n + 1023) << 52);
}

}  // namespace double_double_internal

// Natural logarithm. REQUIRES: x is normal, positive and finite.
ISOBIT_HOST_DEVICE inline DoubleDouble LogDoubleDouble(double x) {
  // x = 2^e * m with m in [3/4, 3/2).
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  int e = static_cast<int>(bits >> 52) - 1023;
  double m = __builtin_bit_cast(double, (bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m >= 1.5) {
    m = ieee::Mul(m, 0.5);
    ++e;
  }
  // log(m) = 2 atanh(t) with t = (m - 1) / (m + 1) in [-1/7, 1/5]; 2 (t + t^3/3 + t^5/5 + ...).
  const DoubleDouble t = Divide(TwoSum(m, -1.0), TwoSum(m, 1.0));
  const DoubleDouble t2 = Multiply(t, t);
  DoubleDouble series = {0.0, 0.0};
  for (int k = 49; k >= 1; k -= 2) {
    const DoubleDouble reciprocal = Divide({1.0, 0.0}, {static_cast<double>(k), 0.0});
    series = Add(Multiply(series, t2), reciprocal);
  }
  const DoubleDouble log_m = Multiply(Multiply(series, t), {2.0, 0.0});
  return Add(Multiply(double_double_internal::kLn2, {static_cast<double>(e), 0.0}), log_m);
}

// exp(x) rounded to double. REQUIRES: |x| <= 700.
ISOBIT_HOST_DEVICE inline double ExpDoubleDouble(DoubleDouble x) {
  // x = n log(2) + r; adding 1.5 * 2^52 rounds to an integer.
  constexpr double kRoundToInteger = 0x1.8p+52;
  constexpr double kInverseLn2 = 0x1.71547652b82fep+0;
  const double n = ieee::Sub(ieee::Fma(x.high, kInverseLn2, kRoundToInteger), kRoundToInteger);
  const DoubleDouble r = Add(x, Multiply(double_double_internal::kLn2, {-n, 0.0}));
  // Taylor series as nested 1 + r/1 (1 + r/2 (1 + r/3 (...))), |r| < 0.35.
  DoubleDouble series = {1.0, 0.0};
  for (int k = 27; k >= 1; --k) {
    const DoubleDouble factor = Divide(r, {static_cast<double>(k), 0.0});
    series = Add({1.0, 0.0}, Multiply(factor, series));
  }
  return ieee::Mul(series.high, double_double_internal::PowerOfTwo(static_cast<int>(n)));
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_DOUBLE_DOUBLE_H_
