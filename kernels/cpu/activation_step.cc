#include "kernels/cpu/activation_step.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation_step.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/activation_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// Without vectors everything is computed literally, which is what this answer asks for.
ExponentRange PrepareRow(const Bf16*, int64_t, ActivationForm, ActivationStep*, StepKind*) {
  return {0, kNonFiniteExponent};
}

#else

ExponentRange PrepareRow(const Bf16* x, int64_t cols, ActivationForm form, ActivationStep* steps,
                         StepKind* kinds) {
  const UintTag du;
  const hn::Rebind<uint16_t, UintTag> dh;
  const int lanes = static_cast<int>(hn::Lanes(du));
  auto largest = hn::Zero(du);
  auto smallest_less_1 = hn::Set(du, 0xffffffffu);
  const int64_t count = (cols + kDotTerms - 1) / kDotTerms;
  for (int64_t s = 0; s < count; ++s) {
    alignas(64) uint16_t padded[kDotTerms] = {};
    const uint16_t* in = reinterpret_cast<const uint16_t*>(x + s * kDotTerms);
    if ((s + 1) * kDotTerms > cols) {
      std::copy(in, in + (cols - s * kDotTerms), padded);
      in = padded;
    }
    StepObserver observer;
    for (int i = 0; i < kDotTerms; i += lanes) {
      const auto bits = hn::PromoteTo(du, hn::LoadU(dh, in + i));
      const auto magnitude = hn::And(bits, hn::Set(du, 0x7fff));
      largest = hn::Max(largest, magnitude);
      smallest_less_1 = hn::Min(smallest_less_1, hn::Sub(magnitude, hn::Set(du, 1)));
      observer.Note(magnitude);
      StoreStep(bits, magnitude, form, i, steps[s]);
    }
    kinds[s] = observer.Kind();
  }
  const uint32_t max = hn::GetLane(hn::MaxOfLanes(du, largest));
  if (max == 0) return {};
  const uint32_t min = hn::GetLane(hn::MinOfLanes(du, smallest_less_1)) + 1;
  const ExponentRange range = {std::max(1, static_cast<int>(min >> 7)),
                               std::max(1, static_cast<int>(max >> 7))};
  if (!range.finite()) std::fill(kinds, kinds + count, StepKind::kZero);
  return range;
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(PrepareRow);

PrepareRowFunction SelectPrepareRow(const CpuContext& context) {
  return SelectKernel(HWY_DISPATCH_TABLE(PrepareRow), context);
}

}  // namespace isobit
#endif  // HWY_ONCE
