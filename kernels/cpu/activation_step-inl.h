// Filling ActivationStep in vectors. Included once a Highway target.

#if defined(ISOBIT_KERNELS_CPU_ACTIVATION_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOBIT_KERNELS_CPU_ACTIVATION_STEP_INL_H_
#undef ISOBIT_KERNELS_CPU_ACTIVATION_STEP_INL_H_
#else
#define ISOBIT_KERNELS_CPU_ACTIVATION_STEP_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/cpu/activation_step.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Elements [i, i + lanes) of a step, from bf16 bits and the same without sign.
HWY_INLINE void StoreStep(hn::Vec<UintTag> bits, hn::Vec<UintTag> magnitude, ActivationForm form,
                          int i, ActivationStep& step) {
  const UintTag du;
  const FloatTag df;
  hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(bits)), df, step.value + i);
  const auto zero = hn::Eq(magnitude, hn::Zero(du));
  const auto field = hn::Max(hn::ShiftRight<7>(magnitude), hn::Set(du, 1));
  if (form == ActivationForm::kTile) {
    const auto top = hn::Set(du, kActivationTop);
    const auto below_top = hn::Sub(top, hn::Min(field, top));
    const auto byte = hn::IfThenElse(zero, hn::Set(du, 255), below_top);
    hn::Store(hn::Mul(byte, hn::Set(du, 0x01010101u)), du, step.exponent + i);
  } else {
    const auto shifted = hn::ShiftLeft<7>(hn::IfThenZeroElse(zero, field));
    hn::Store(hn::Or(shifted, hn::ShiftLeft<16>(shifted)), du, step.exponent + i);
  }
}

// Finds the kind of a step.
//
// 16 products and C reach 2^31 only if the products sum to 62 * 2^e or more. A product is less than
// 1.9922 times the significand of its activation, so these must sum to 31.1 of at most 31.9: none
// may be below 1.23.
class StepObserver {
 public:
  HWY_INLINE StepObserver() : any_(hn::Zero(UintTag())), smallest_(hn::Set(UintTag(), 0x7f)) {}

  // bf16 bits without sign.
  HWY_INLINE void Note(hn::Vec<UintTag> magnitude) {
    any_ = hn::Or(any_, magnitude);
    smallest_ = hn::Min(smallest_, hn::And(magnitude, hn::Set(UintTag(), 0x7f)));
  }
  HWY_INLINE StepKind Kind() const {
    constexpr uint32_t kFraction = static_cast<uint32_t>(0.23 * 128);
    const UintTag du;
    if (hn::AllTrue(du, hn::Eq(any_, hn::Zero(du)))) return StepKind::kZero;
    const bool all_large = hn::AllTrue(du, hn::Gt(smallest_, hn::Set(du, kFraction - 1)));
    return all_large ? StepKind::kMayWrap : StepKind::kSafe;
  }

 private:
  hn::Vec<UintTag> any_;
  hn::Vec<UintTag> smallest_;
};

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#endif  // ISOBIT_KERNELS_CPU_ACTIVATION_STEP_INL_H_
