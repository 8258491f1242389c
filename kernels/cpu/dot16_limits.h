#ifndef ISOBIT_KERNELS_CPU_DOT16_LIMITS_H_
#define ISOBIT_KERNELS_CPU_DOT16_LIMITS_H_

// When dot16_simd-inl.h gives the bits of dot16. Exponents are fields of fp32 (bias 127); that of a
// product a b is field(a) + field(b) - 127.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace isobit {

// Fraction bits that dot16 keeps below the largest exponent.
inline constexpr int kAlignedBits = 25;

// The search for the largest exponent starts here, so that every scale is a normal number.
inline constexpr int kSearchFloor = 27;

// Exponent bytes. Activations a and weights b are searched as kActivationTop - field(a) and
// field(b) + kWeightOffset: their saturated difference is the exponent of the product. Inputs above
// the limits, about 2^68 and 2^59, go the exact path; attention's p reach 2^66.
inline constexpr int kWeightOffset = 68;
inline constexpr int kActivationTop = 127 + kWeightOffset;
inline constexpr int kMaxActivationExponent = kActivationTop;
inline constexpr int kMaxWeightExponent = 254 - kWeightOffset;

// The field of infinities and NaN.
inline constexpr int kNonFiniteExponent = 255;

// Sums of 16 products and C above this magnitude may have wrapped: |C| < 2^26 in units of the last
// aligned bit.
inline constexpr int32_t kMaxSafeSum = 0x7bffffff;

// Exponent fields of a set of numbers, zeros left out; that of a subnormal counts as 1.
struct ExponentRange {
  int min = kNonFiniteExponent;
  int max = 0;

  void Include(const ExponentRange& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
  }
  bool finite() const { return max < kNonFiniteExponent; }
};

// Whether no chain over `terms` products of a and b can leave fp32's range. The products are below
// 2^(a + b + 2 - 254), a chain at most `terms` times that, and an unscaled sum is 2^6 times the
// largest exponent.
constexpr bool ExponentsAreSafe(const ExponentRange& a, const ExponentRange& b, int64_t terms) {
  if (a.max > kMaxActivationExponent || b.max > kMaxWeightExponent) return false;
  const int growth = std::bit_width(static_cast<uint64_t>(terms)) + 2 + 6;
  return a.max + b.max - 127 + growth < kNonFiniteExponent;
}

// The smallest exponent that a chain over products of a and b may have aligned to; 0 if any will
// do. Two things need it:
//  - fp32 must hold, or put below the last aligned bit, every scaled term: 2^-99.
//  - A zero is searched as if its field 0 were an exponent, and so is a subnormal weight, which
//    counts as 1. Above what that can give, the search was right.
// If no product but zero can be below that limit, a step below it has only zero products. Its
// accumulator passes through whatever was found, as long as it is a multiple of the last aligned
// bit: it is if the chain began at zero, or at a sum with 24 bits above that bit. min_start: the
// smallest exponent of the accumulators, zeros left out, where the chain began.
constexpr int RequiredExponent(const ExponentRange& a, const ExponentRange& b,
                               int min_start = kNonFiniteExponent) {
  const int limit = std::max({kSearchFloor + 1, a.max - 125, b.max - 125});
  const bool only_zeros_below = a.min + b.min - 127 >= limit && min_start >= limit - 2;
  return only_zeros_below ? 0 : limit;
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_DOT16_LIMITS_H_
