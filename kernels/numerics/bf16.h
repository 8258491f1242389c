#ifndef ISOBIT_KERNELS_NUMERICS_BF16_H_
#define ISOBIT_KERNELS_NUMERICS_BF16_H_

// The storage types of the contract and the roundings between them (contract 0).
//
// Bf16 is the upper half of an fp32: 1 sign, 8 exponent, 7 fraction bits. Fp16 is IEEE binary16.
// Both are trivial, so arrays of them can be mapped straight onto weights in a file.
// Every NaN that the contract writes is canonical: 0x7fff in bf16, 0x7fffffff in fp32.

#include <cstdint>

#include "kernels/numerics/host_device.h"

namespace isobit {

struct Bf16 {
  uint16_t bits;
  friend ISOBIT_HOST_DEVICE constexpr bool operator==(Bf16 a, Bf16 b) { return a.bits == b.bits; }
  friend ISOBIT_HOST_DEVICE constexpr bool operator!=(Bf16 a, Bf16 b) { return a.bits != b.bits; }
};

struct Fp16 {
  uint16_t bits;
  friend ISOBIT_HOST_DEVICE constexpr bool operator==(Fp16 a, Fp16 b) { return a.bits == b.bits; }
  friend ISOBIT_HOST_DEVICE constexpr bool operator!=(Fp16 a, Fp16 b) { return a.bits != b.bits; }
};

inline constexpr uint32_t kCanonicalNanBits = 0x7fffffffu;
inline constexpr Bf16 kCanonicalNanBf16 = {0x7fff};
inline constexpr Bf16 kOneBf16 = {0x3f80};

ISOBIT_HOST_DEVICE constexpr uint32_t FloatBits(float x) { return __builtin_bit_cast(uint32_t, x); }
ISOBIT_HOST_DEVICE constexpr float BitsFloat(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

ISOBIT_HOST_DEVICE constexpr bool IsNan(float x) {
  return (FloatBits(x) & 0x7fffffffu) > 0x7f800000u;
}

// The one NaN that may leave a computation, so that hardware's choice of sign and payload can't.
ISOBIT_HOST_DEVICE constexpr float CanonicalNan() { return BitsFloat(kCanonicalNanBits); }
ISOBIT_HOST_DEVICE constexpr float Canonical(float x) { return IsNan(x) ? CanonicalNan() : x; }

// Exact.
ISOBIT_HOST_DEVICE constexpr float ToFloat(Bf16 x) { return BitsFloat(uint32_t{x.bits} << 16); }

// Exact; a NaN keeps its sign and payload.
ISOBIT_HOST_DEVICE constexpr float ToFloat(Fp16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1fu;
  const uint32_t fraction = x.bits & 0x3ffu;
  if (exponent == 0x1fu) return BitsFloat(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return BitsFloat(sign | ((exponent + 112) << 23) | (fraction << 13));
  // Zero or subnormal: fraction * 2^-24, exact in fp32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return BitsFloat(sign | FloatBits(magnitude));
}

// Nearest, ties to even; overflow gives infinity; NaN gives 0x7fff.
ISOBIT_HOST_DEVICE constexpr Bf16 RoundToBf16(float x) {
  const uint32_t bits = FloatBits(x);
  if (IsNan(x)) return kCanonicalNanBf16;
  const uint32_t lowest_kept_bit = (bits >> 16) & 1u;
  return Bf16{static_cast<uint16_t>((bits + 0x7fffu + lowest_kept_bit) >> 16)};
}

// Toward zero; NaN gives 0x7fff.
ISOBIT_HOST_DEVICE constexpr Bf16 TruncateToBf16(float x) {
  if (IsNan(x)) return kCanonicalNanBf16;
  return Bf16{static_cast<uint16_t>(FloatBits(x) >> 16)};
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_BF16_H_
