#ifndef ISOBIT_KERNELS_NUMERICS_DOT16_H_
#define ISOBIT_KERNELS_NUMERICS_DOT16_H_

// The one accumulation step of the contract, and the chain made of it (contract 1 and 2).
//
//     D = dot16(C, a[0..15], b[0..15])
//
// is what a Hopper tensor core does in mma.sync.m16n8k16 and in one k16 step of wgmma: exact
// products, aligned to the largest exponent among products and C and truncated there, added as
// integers, rounded toward zero. The order within the 16 can't be seen; the order of steps can.
//
// This is the readable definition, for oracles and exact paths, with integers only. Fast kernels
// are tested against it.

#include <cstdint>

#include "kernels/numerics/bf16.h"

namespace isobit {

inline constexpr int kDotTerms = 16;

namespace dot16_internal {

// Fraction bits that survive the alignment.
inline constexpr int kAlignedFractionBits = 25;

// A finite number as (-1)^negative * significand * 2^(exponent - FractionBits). The significand of
// a subnormal has no leading one and is left so: the hardware does not normalise either.
struct Unpacked {
  bool negative;
  bool infinite;
  bool nan;
  int exponent;
  uint32_t significand;
};

template <typename T>
struct Format;
template <>
struct Format<Bf16> {
  static constexpr int kFractionBits = 7, kExponentBits = 8;
};
template <>
struct Format<Fp16> {
  static constexpr int kFractionBits = 10, kExponentBits = 5;
};

template <int kFractionBits, int kExponentBits>
ISOBIT_HOST_DEVICE constexpr Unpacked Unpack(uint32_t bits) {
  constexpr uint32_t kMaxExponent = (1u << kExponentBits) - 1;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << kFractionBits) - 1);
  const uint32_t biased = (bits >> kFractionBits) & kMaxExponent;
  Unpacked u{};
  u.negative = ((bits >> (kFractionBits + kExponentBits)) & 1u) != 0;
  u.infinite = biased == kMaxExponent && fraction == 0;
  u.nan = biased == kMaxExponent && fraction != 0;
  u.exponent = (biased == 0 ? 1 : static_cast<int>(biased)) - kBias;
  u.significand = biased == 0 ? fraction : fraction | (1u << kFractionBits);
  return u;
}

template <typename T>
ISOBIT_HOST_DEVICE constexpr Unpacked Unpack(T x) {
  return Unpack<Format<T>::kFractionBits, Format<T>::kExponentBits>(x.bits);
}

// sum * 2^(exponent - kAlignedFractionBits), rounded toward zero to fp32; overflow gives infinity.
// A result that is zero is +0, even where a negative sum was rounded to it.
ISOBIT_HOST_DEVICE constexpr float RoundTowardZero(int64_t sum, int exponent) {
  if (sum == 0) return 0.0f;
  const uint32_t sign = sum < 0 ? 0x80000000u : 0u;
  uint64_t magnitude = sum < 0 ? static_cast<uint64_t>(-sum) : static_cast<uint64_t>(sum);
  // The unit of `magnitude` is 2^unit. Bring it to 24 bits, or to the unit of the subnormals.
  int unit = exponent - kAlignedFractionBits;
  while (magnitude >= (uint64_t{1} << 24) || unit < -149) {
    magnitude >>= 1;
    ++unit;
    if (magnitude == 0) return 0.0f;
  }
  while (magnitude < (uint64_t{1} << 23) && unit > -149) {
    magnitude <<= 1;
    --unit;
  }
  const int biased = unit + 150;  // of a normal number; a subnormal has unit -149 and no bit 23
  if (biased >= 255) return BitsFloat(sign | 0x7f800000u);
  const uint32_t fraction = static_cast<uint32_t>(magnitude) & 0x7fffffu;
  const bool normal = (magnitude >> 23) != 0;
  return BitsFloat(sign | (normal ? static_cast<uint32_t>(biased) << 23 : 0u) | fraction);
}

}  // namespace dot16_internal

// One step; a[i * a_stride] and b[i * b_stride] for i in [0, 16). T is Bf16 or Fp16.
template <typename T>
ISOBIT_HOST_DEVICE constexpr float Dot16(float c, const T* a, int64_t a_stride, const T* b,
                                         int64_t b_stride) {
  using dot16_internal::kAlignedFractionBits;
  using dot16_internal::Unpacked;
  constexpr int kProductFractionBits = 2 * dot16_internal::Format<T>::kFractionBits;

  struct Term {
    bool negative;
    int exponent;
    uint64_t significand;  // kAlignedFractionBits fraction bits, in [0, 4)
  };
  Term terms[kDotTerms + 1] = {};
  bool nan = false;
  bool infinite[2] = {false, false};  // by sign

  for (int i = 0; i < kDotTerms; ++i) {
    const Unpacked x = dot16_internal::Unpack(a[i * a_stride]);
    const Unpacked y = dot16_internal::Unpack(b[i * b_stride]);
    const bool negative = x.negative != y.negative;
    const bool product_infinite = x.infinite || y.infinite;
    const bool zero_times_infinity = (x.infinite && !y.infinite && y.significand == 0) ||
                                     (y.infinite && !x.infinite && x.significand == 0);
    nan = nan || x.nan || y.nan || zero_times_infinity;
    infinite[negative] = infinite[negative] || product_infinite;
    const uint64_t product = uint64_t{x.significand} * y.significand;
    terms[i] = {negative, x.exponent + y.exponent,
                product << (kAlignedFractionBits - kProductFractionBits)};
  }
  const Unpacked z = dot16_internal::Unpack<23, 8>(FloatBits(c));
  nan = nan || z.nan;
  infinite[z.negative] = infinite[z.negative] || z.infinite;
  terms[kDotTerms] = {z.negative, z.exponent,
                      uint64_t{z.significand} << (kAlignedFractionBits - 23)};

  if (nan || (infinite[0] && infinite[1])) return CanonicalNan();
  if (infinite[0] || infinite[1]) return BitsFloat(infinite[1] ? 0xff800000u : 0x7f800000u);

  bool any = false;
  int largest = 0;
  for (const Term& t : terms) {
    if (t.significand == 0) continue;
    if (!any || t.exponent > largest) largest = t.exponent;
    any = true;
  }
  int64_t sum = 0;
  for (const Term& t : terms) {
    if (t.significand == 0) continue;
    const int shift = largest - t.exponent;
    const int64_t aligned = shift < 64 ? static_cast<int64_t>(t.significand >> shift) : 0;
    sum += t.negative ? -aligned : aligned;
  }
  return dot16_internal::RoundTowardZero(sum, largest);
}

template <typename T>
ISOBIT_HOST_DEVICE constexpr float Dot16(float c, const T* a, const T* b) {
  return Dot16(c, a, 1, b, 1);
}

// c, then the steps k = 0, 16, 32, ... in ascending order; the tail of K is padded with zeros,
// which changes nothing. k = 0 gives c.
template <typename T>
ISOBIT_HOST_DEVICE constexpr float DotChain(float c, const T* a, int64_t a_stride, const T* b,
                                            int64_t b_stride, int64_t k) {
  int64_t i = 0;
  for (; i + kDotTerms <= k; i += kDotTerms) {
    c = Dot16(c, a + i * a_stride, a_stride, b + i * b_stride, b_stride);
  }
  if (i == k) return c;
  T last_a[kDotTerms] = {};
  T last_b[kDotTerms] = {};
  for (int j = 0; i + j < k; ++j) {
    last_a[j] = a[(i + j) * a_stride];
    last_b[j] = b[(i + j) * b_stride];
  }
  return Dot16(c, last_a, last_b);
}

// The chain of contract 2, from C = +0.
template <typename T>
ISOBIT_HOST_DEVICE constexpr float DotChain(const T* a, const T* b, int64_t k) {
  return DotChain(0.0f, a, 1, b, 1, k);
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_DOT16_H_
