// Exp2 and SoftCap of kernels/numerics/scalar.h in vectors. Included once a Highway target.

#if defined(ISOBIT_KERNELS_CPU_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOBIT_KERNELS_CPU_EXP2_INL_H_
#undef ISOBIT_KERNELS_CPU_EXP2_INL_H_
#else
#define ISOBIT_KERNELS_CPU_EXP2_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/numerics/scalar.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

// Bit-equal to Exp2 if kFusedMulAdd, and within 2^-21 otherwise. Of NaN it makes any number.
HWY_INLINE Floats Exp2Lanes(Floats x) {
  const FloatTag df;
  const IntTag di;
  const auto clamped = hn::Min(hn::Max(x, hn::Set(df, -152.0f)), hn::Set(df, 129.0f));
  const auto round_to_integer = hn::Set(df, 0x1.8p+23f);
  const auto n = hn::Sub(hn::Add(clamped, round_to_integer), round_to_integer);
  const auto f = hn::Sub(clamped, n);
  auto q = hn::Set(df, 0x1.3f906cp-13f);
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.5f0a66p-10f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.3b30bp-7f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.c6af78p-5f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.ebfbd8p-3f));
  q = hn::MulAdd(q, f, hn::Set(df, 0x1.62e43p-1f));
  const auto power = hn::MulAdd(q, f, hn::Set(df, 1.0f));
  const auto exponent = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(exponent);
  const auto power_of_two = [&](hn::Vec<IntTag> e) HWY_ATTR {
    return hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127))));
  };
  return hn::Mul(hn::Mul(power, power_of_two(half)), power_of_two(hn::Sub(exponent, half)));
}

// Bit-equal to SoftCap if kFusedMulAdd, but for the payload of NaN. REQUIRES: cap > 0.
HWY_INLINE Floats SoftCapLanes(Floats x, float cap) {
  const FloatTag df;
  const auto caps = hn::Set(df, cap);
  const auto one = hn::Set(df, 1.0f);
  const auto magnitude = hn::Abs(x);
  const auto e = Exp2Lanes(hn::Mul(hn::Div(magnitude, caps), hn::Set(df, kMinusTwoLog2E)));
  const auto capped = hn::Mul(caps, hn::Div(hn::Sub(one, e), hn::Add(one, e)));
  const auto signed_cap = hn::IfThenElse(hn::Lt(x, hn::Zero(df)), hn::Neg(capped), capped);
  return hn::IfThenElse(hn::IsNaN(x), x, signed_cap);
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#endif  // ISOBIT_KERNELS_CPU_EXP2_INL_H_
