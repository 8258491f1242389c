#ifndef ISOBIT_KERNELS_CPU_DOT16_LIMITS_H_
#define ISOBIT_KERNELS_CPU_DOT16_LIMITS_H_

// When dot16_simd-inl.h gives the bits of dot16. Exponents are fp32's fields, bias 127; of a
// product a b, field(a) + field(b) - 127.

#include <algorithm>
#include <bit>
#include <cstdint>

namespace isobit {

// Fraction bits that dot16 keeps below the largest exponent.
inline constexpr int kAlignedBits = 25;

// Exponent bytes. Activations a and weights b are searched as kActivationTop - field(a) and
// field(b) + kWeightOffset: their saturated difference is the exponent of the product. Inputs above
// the limits, about 2^68 and 2^60, go the exact path; attention's p reach 2^66.
inline constexpr int kWeightOffset = 68;
inline constexpr int kActivationTop = 127 + kWeightOffset;
inline constexpr int kMaxActivationExponent = kActivationTop;
inline constexpr int kMaxWeightExponent = 255 - kWeightOffset;

// Infinities and NaN.
inline constexpr int kNonFiniteExponent = 255;

// Sums of 16 products and C above this magnitude may have wrapped: |C| < 2^26 in units of the last
// aligned bit.
inline constexpr int32_t kMaxSafeSum = 0x7bffffff;

// Whether no chain over `terms` products can leave fp32's range, given the largest exponents of the
// activations and of the weights. Their product is below 2^(a + b + 2 - 254), a chain at most
// `terms` times that, and an unscaled sum is 2^6 times the largest exponent.
constexpr bool ExponentsAreSafe(int max_activation, int max_weight, int64_t terms) {
  if (max_activation > kMaxActivationExponent || max_weight > kMaxWeightExponent) return false;
  const int growth = std::bit_width(static_cast<uint64_t>(terms)) + 2 + 6;
  return max_activation + max_weight - 127 + growth < kNonFiniteExponent;
}

// The smallest exponent that a chain may have aligned to.
//  - 2^-100: scales and the last aligned bit are normal numbers, and what fp32 can't hold is below
//    that bit.
//  - A weight of field 0 (a zero, or a subnormal whose field counts as 1) is searched as if its
//    exponent were that of the activation less 127, and the same the other way round: above those,
//    the search was right.
constexpr int MinSafeExponent(int max_activation, int max_weight) {
  return std::max({27, max_activation - 125, max_weight - 125});
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_DOT16_LIMITS_H_
