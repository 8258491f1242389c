#ifndef ISOBIT_KERNELS_NUMERICS_SCALAR_H_
#define ISOBIT_KERNELS_NUMERICS_SCALAR_H_

// exp2, log, and SiLU, GELU and the soft cap made of them (contract 5).
//
// Each function is a fixed sequence of IEEE operations on fp32: no table, no branch that a compiler
// could turn into other arithmetic, so scalar code, SIMD and GPU agree by construction. Polynomials
// are weighted least-squares fits at Chebyshev points, coefficients rounded to fp32 one by one from
// the lowest with the rest fitted again. Error bounds are proven over all 2^32 inputs by
// tests/kernels/numerics/scalar_exhaustive_test.cc.
//
// Every NaN returned is 0x7fffffff.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit {

inline constexpr float kLog2E = 0x1.715476p+0f;  // log2(e) in fp32

namespace scalar_internal {

// 2^n for n in [-126, 127].
ISOBIT_HOST_DEVICE constexpr float PowerOfTwo(int32_t n) {
  return BitsFloat(static_cast<uint32_t>(n + 127) << 23);
}

}  // namespace scalar_internal

// 2^x within 1 ulp for every x (0.879 at worst). Subnormal results are kept; 0 only for x <= -150;
// overflow gives infinity.
ISOBIT_HOST_DEVICE inline float Exp2(float x) {
  if (IsNan(x)) return CanonicalNan();
  // Below -150 the result is 0. Computing 2^0 there keeps processors off their slow path for
  // subnormals. Above 128 the product overflows as it should.
  const bool zero = x < -150.0f;
  const float clamped = zero ? 0.0f : (x > 129.0f ? 129.0f : x);
  // x = n + f with |f| <= 1/2: adding 1.5 * 2^23 rounds to an integer, ties to even.
  constexpr float kRoundToInteger = 0x1.8p+23f;
  const float n = ieee::Sub(ieee::Add(clamped, kRoundToInteger), kRoundToInteger);
  const float f = ieee::Sub(clamped, n);  // exact
  // 2^f = 1 + f * q(f), relative error below 2^-28.
  float q = 0x1.3f906cp-13f;
  q = ieee::Fma(q, f, 0x1.5f0a66p-10f);
  q = ieee::Fma(q, f, 0x1.3b30bp-7f);
  q = ieee::Fma(q, f, 0x1.c6af78p-5f);
  q = ieee::Fma(q, f, 0x1.ebfbd8p-3f);
  q = ieee::Fma(q, f, 0x1.62e43p-1f);
  const float power = ieee::Fma(q, f, 1.0f);
  // 2^n in two factors, since n may leave the range of exponents: the first product is exact, the
  // second rounds only if the result is subnormal or overflows.
  const int32_t exponent = static_cast<int32_t>(n);
  const int32_t half = exponent >> 1;
  const float scaled = ieee::Mul(ieee::Mul(power, scalar_internal::PowerOfTwo(half)),
                                 scalar_internal::PowerOfTwo(exponent - half));
  return zero ? 0.0f : scaled;
}

// Natural logarithm within 1 ulp for every x >= 0 (0.874 at worst); -infinity at both zeros, NaN
// below.
ISOBIT_HOST_DEVICE inline float Log(float x) {
  if (IsNan(x) || x < 0.0f) return CanonicalNan();
  if (x == 0.0f) return BitsFloat(0xff800000u);
  if (x == BitsFloat(0x7f800000u)) return x;
  // Subnormals are scaled into the normal range first.
  const bool subnormal = x < 0x1p-126f;
  const uint32_t bits = FloatBits(subnormal ? ieee::Mul(x, 0x1p+24f) : x);
  // x = 2^e * m with m in [2/3, 4/3), r = m - 1.
  constexpr uint32_t kTwoThirds = 0x3f2aaaabu;
  const int32_t e = static_cast<int32_t>(bits - kTwoThirds) >> 23;
  const float m = BitsFloat(bits - (static_cast<uint32_t>(e) << 23));
  const float r = ieee::Sub(m, 1.0f);  // exact
  const float scale = static_cast<float>(subnormal ? e - 24 : e);
  // log(1 + r) = r + r^2 * q(r), error below 2^-27 of the result.
  float q = -0x1.03037ap-3f;
  q = ieee::Fma(q, r, 0x1.1ee68ap-3f);
  q = ieee::Fma(q, r, -0x1.f56284p-4f);
  q = ieee::Fma(q, r, 0x1.1eb8dep-3f);
  q = ieee::Fma(q, r, -0x1.55884ep-3f);
  q = ieee::Fma(q, r, 0x1.99d268p-3f);
  q = ieee::Fma(q, r, -0x1.ffff6ap-3f);
  q = ieee::Fma(q, r, 0x1.5555p-2f);
  q = ieee::Fma(q, r, -0.5f);
  // e * log(2) + r is kept as high + low. log(2) has 16 bits in its upper part, so e times it is
  // exact, and so is `low`, the rounding error of `high`.
  constexpr float kLn2Upper = 0x1.62e4p-1f;
  constexpr float kLn2Lower = 0x1.7f7d1cp-20f;
  const float high = ieee::Fma(scale, kLn2Upper, r);
  const float low = ieee::Add(ieee::Fma(scale, kLn2Upper, -high), r);
  const float rest = ieee::Fma(ieee::Mul(r, r), q, ieee::Fma(scale, kLn2Lower, low));
  return ieee::Add(high, rest);
}

// x / (1 + exp(-x)), with exp(-x) = Exp2(x * -log2(e)): one multiplication, Exp2, one addition, one
// division. The rounded product costs accuracy where exp(-x) is large: within 2 + 1.5 |x| ulp for x
// in [-88, 0] and 2 ulp above; bf16 doesn't see it. Below -89 the result is -0, and -infinity gives
// NaN, as those operations do.
ISOBIT_HOST_DEVICE inline float Silu(float x) {
  const float exp_minus_x = Exp2(ieee::Mul(x, -kLog2E));
  return Canonical(ieee::Div(x, ieee::Add(1.0f, exp_minus_x)));
}

// The gated activation of a feed-forward layer. Gate and up are GEMM results already rounded to
// bf16, so that a kernel that fuses this into the GEMM and one that does not agree.
ISOBIT_HOST_DEVICE inline Bf16 SiluGate(Bf16 gate, Bf16 up) {
  const Bf16 activated = RoundToBf16(Silu(ToFloat(gate)));
  return RoundToBf16(ieee::Mul(ToFloat(activated), ToFloat(up)));
}

inline constexpr float kGeluCube = 0x1.6e4e260000000p-5f;    // 0.044715
inline constexpr float kGeluScale = -0x1.26aec20000000p+1f;  // -2 sqrt(2 / pi) log2(e)

// GELU in its tanh form, 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), written with the same
// quotient as SiLU: x / (1 + Exp2(kGeluScale * (x + 0.044715 x^3))). Two products for the cube, one
// fma, one product, Exp2, one addition, one division. -infinity gives NaN, as those operations do.
ISOBIT_HOST_DEVICE inline float GeluTanh(float x) {
  const float cube = ieee::Mul(ieee::Mul(x, x), x);
  const float inner = ieee::Fma(kGeluCube, cube, x);
  return Canonical(ieee::Div(x, ieee::Add(1.0f, Exp2(ieee::Mul(kGeluScale, inner)))));
}

// As SiluGate.
ISOBIT_HOST_DEVICE inline Bf16 GeluGate(Bf16 gate, Bf16 up) {
  const Bf16 activated = RoundToBf16(GeluTanh(ToFloat(gate)));
  return RoundToBf16(ieee::Mul(ToFloat(activated), ToFloat(up)));
}

inline constexpr float kMinusTwoLog2E = -0x1.7154760000000p+1f;  // -2 log2(e)

// cap * tanh(x / cap), odd by construction: with e = Exp2(|x| / cap * -2 log2(e)) it is
// cap * ((1 - e) / (1 + e)) under the sign of x. One operation each, in that order; within
// 2^-22 * cap of the exact value. cap <= 0: x itself.
ISOBIT_HOST_DEVICE inline float SoftCap(float x, float cap) {
  if (!(cap > 0.0f)) return x;
  const float magnitude = BitsFloat(FloatBits(x) & 0x7fffffffu);
  const float e = Exp2(ieee::Mul(ieee::Div(magnitude, cap), kMinusTwoLog2E));
  const float capped = ieee::Mul(cap, ieee::Div(ieee::Sub(1.0f, e), ieee::Add(1.0f, e)));
  return Canonical(x < 0.0f ? -capped : capped);
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_SCALAR_H_
