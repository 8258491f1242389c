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
// are tested against it, and it is tested against 103,000 results recorded on the hardware
// (tests/kernels/numerics/dot16_test.cc).

#include <cstdint>

#include "kernels/numerics/bf16.h"

namespace isobit {

inline constexpr int kDotTerms = 16;

namespace dot16_internal {

// Fraction bits that survive the alignment.
inline constexpr int kAlignedFractionBits = 25;
// The exponent that terms are aligned to is never lower than this. It can be seen only where
// products far below fp32's normal range nearly cancel.
inline constexpr int kMinAlignedExponent = -133;

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
template <>
struct Format<float> {
  static constexpr int kFractionBits = 23, kExponentBits = 8;
};

// A number taken apart. Finite: (-1)^negative * significand * 2^(exponent - kFractionBits), where
// the significand of a subnormal has no leading one and is left so: the hardware does not
// normalise either.
struct Unpacked {
  bool negative;
  bool special;  // infinite or NaN
  bool nan;
  int32_t exponent;
  uint32_t significand;
};

template <typename T>
ISOBIT_HOST_DEVICE constexpr Unpacked Unpack(uint32_t bits) {
  constexpr int kFractionBits = Format<T>::kFractionBits;
  constexpr int kExponentBits = Format<T>::kExponentBits;
  constexpr uint32_t kLargestExponent = (1u << kExponentBits) - 1;
  constexpr int32_t kBias = (1 << (kExponentBits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << kFractionBits) - 1);
  const uint32_t biased = (bits >> kFractionBits) & kLargestExponent;
  const uint32_t hidden = biased != 0 ? 1u : 0u;
  Unpacked u{};
  u.negative = ((bits >> (kFractionBits + kExponentBits)) & 1u) != 0;
  u.special = biased == kLargestExponent;
  u.nan = u.special && fraction != 0;
  u.exponent = static_cast<int32_t>(biased + (1u - hidden)) - kBias;
  u.significand = fraction | hidden << kFractionBits;
  return u;
}

// The number of bits of x. REQUIRES: x > 0.
ISOBIT_HOST_DEVICE constexpr int BitWidth(uint64_t x) {
#if defined(__CUDA_ARCH__)
  return 64 - __clzll(static_cast<long long>(x));
#else
  return 64 - __builtin_clzll(x);
#endif
}

// sum * 2^(exponent - kAlignedFractionBits), rounded toward zero to fp32; overflow gives infinity.
// A result that is zero is +0, even where a negative sum was rounded to it.
ISOBIT_HOST_DEVICE constexpr float RoundTowardZero(int64_t sum, int32_t exponent) {
  constexpr int kSmallestUnit = -149;  // of fp32, as a power of two
  if (sum == 0) return 0.0f;
  const uint32_t sign = sum < 0 ? 0x80000000u : 0u;
  const uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  // Cut to 24 bits, fewer where the result is subnormal.
  int shift = BitWidth(magnitude) - 24;
  int unit = exponent - kAlignedFractionBits + shift;
  if (unit < kSmallestUnit) {
    shift += kSmallestUnit - unit;
    unit = kSmallestUnit;
  }
  if (shift >= 64) return 0.0f;
  const uint32_t significand =
      static_cast<uint32_t>(shift >= 0 ? magnitude >> shift : magnitude << -shift);
  if (significand == 0) return 0.0f;
  const int biased = unit - kSmallestUnit + 1;
  if (biased >= 255) return BitsFloat(sign | 0x7f800000u);
  // Adding the hidden one of a normal number carries `biased - 1` to `biased`.
  return BitsFloat(sign | ((static_cast<uint32_t>(biased - 1) << 23) + significand));
}

// The step when an input is infinite or NaN: NaN if a NaN, infinity times zero or infinity minus
// infinity is among the terms, else the infinity.
template <typename T>
ISOBIT_HOST_DEVICE constexpr float SpecialDot16(float c, const T* a, int64_t a_stride, const T* b,
                                                int64_t b_stride) {
  const Unpacked z = Unpack<float>(FloatBits(c));
  bool nan = z.nan;
  bool positive_infinity = z.special && !z.negative;
  bool negative_infinity = z.special && z.negative;
  for (int i = 0; i < kDotTerms; ++i) {
    const Unpacked x = Unpack<T>(a[i * a_stride].bits);
    const Unpacked y = Unpack<T>(b[i * b_stride].bits);
    if (!x.special && !y.special) continue;
    nan = nan || x.nan || y.nan || x.significand == 0 || y.significand == 0;
    const bool negative = x.negative != y.negative;
    positive_infinity = positive_infinity || !negative;
    negative_infinity = negative_infinity || negative;
  }
  if (nan || (positive_infinity && negative_infinity)) return CanonicalNan();
  return BitsFloat(positive_infinity ? 0x7f800000u : 0xff800000u);
}

}  // namespace dot16_internal

// One step; a[i * a_stride] and b[i * b_stride] for i in [0, 16). T is Bf16 or Fp16.
template <typename T>
ISOBIT_HOST_DEVICE constexpr float Dot16(float c, const T* a, int64_t a_stride, const T* b,
                                         int64_t b_stride) {
  using namespace dot16_internal;
  constexpr int kProductFractionBits = 2 * Format<T>::kFractionBits;

  // Term i is (-1)^negative * significand * 2^(exponent - kAlignedFractionBits), significand in
  // [0, 4) with that many fraction bits. Zeros take no part in the largest exponent.
  bool negative[kDotTerms + 1] = {};
  int32_t exponent[kDotTerms + 1] = {};
  uint32_t significand[kDotTerms + 1] = {};
  bool special = false;
  for (int i = 0; i < kDotTerms; ++i) {
    const Unpacked x = Unpack<T>(a[i * a_stride].bits);
    const Unpacked y = Unpack<T>(b[i * b_stride].bits);
    special = special || x.special || y.special;
    negative[i] = x.negative != y.negative;
    exponent[i] = x.exponent + y.exponent;
    significand[i] = (x.significand * y.significand)
                     << (kAlignedFractionBits - kProductFractionBits);
  }
  const Unpacked z = Unpack<float>(FloatBits(c));
  negative[kDotTerms] = z.negative;
  exponent[kDotTerms] = z.exponent;
  significand[kDotTerms] = z.significand << (kAlignedFractionBits - Format<float>::kFractionBits);
  if (special || z.special) return SpecialDot16(c, a, a_stride, b, b_stride);

  int32_t largest = kMinAlignedExponent;
  for (int i = 0; i <= kDotTerms; ++i) {
    if (significand[i] != 0 && exponent[i] > largest) largest = exponent[i];
  }
  int64_t sum = 0;
  for (int i = 0; i <= kDotTerms; ++i) {
    const int32_t shift = largest - exponent[i];
    // A zero may have any exponent; shifting it is harmless.
    const int64_t aligned = 0 <= shift && shift < 32 ? significand[i] >> shift : 0;
    const int64_t sign = negative[i] ? -1 : 0;
    sum += (aligned ^ sign) - sign;
  }
  return RoundTowardZero(sum, largest);
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
