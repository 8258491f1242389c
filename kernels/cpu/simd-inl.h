// Bf16 and IEEE arithmetic in vectors, bit-equal to kernels/numerics. Included once a Highway
// target, inside which it lives in HWY_NAMESPACE.

#if defined(ISOBIT_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOBIT_KERNELS_CPU_SIMD_INL_H_
#undef ISOBIT_KERNELS_CPU_SIMD_INL_H_
#else
#define ISOBIT_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/numerics/bf16.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Whether MulAdd of this target rounds once. Where it does not, the contract's fused operations are
// left to the scalar functions.
#if HWY_ARCH_X86
inline constexpr bool kFusedMulAdd = HWY_TARGET <= HWY_AVX2;  // a better target is a lower number
#else
inline constexpr bool kFusedMulAdd = HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR;
#endif

// At most 16 lanes, a power of two: all loops here step through 8, 32 or 128 elements evenly.
using FloatTag = hn::CappedTag<float, 16>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;

// Exact.
inline Floats LoadBf16(const Bf16* from) {
  const FloatTag df;
  const UintTag du;
  const hn::Rebind<uint16_t, FloatTag> dh;
  const auto halves = hn::LoadU(dh, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, halves)));
}

// RoundToBf16, as the fp32 of the same value.
inline Floats RoundedToBf16(Floats x) {
  const FloatTag df;
  const UintTag du;
  const auto bits = hn::BitCast(du, x);
  const auto lowest_kept_bit = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(hn::Set(du, 0x7fff), lowest_kept_bit));
  const auto kept = hn::BitCast(df, hn::And(rounded, hn::Set(du, 0xffff0000u)));
  const auto nan = hn::BitCast(df, hn::Set(du, uint32_t{kCanonicalNanBf16.bits} << 16));
  return hn::IfThenElse(hn::IsNaN(x), nan, kept);
}

// Stores what RoundedToBf16 gave.
inline void StoreRoundedBf16(Floats rounded, Bf16* to) {
  const IntTag di;
  const UintTag du;
  const hn::Rebind<uint16_t, FloatTag> dh;
  const auto bits = hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(du, rounded)));
  hn::StoreU(hn::DemoteTo(dh, bits), dh, reinterpret_cast<uint16_t*>(to));
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#endif  // ISOBIT_KERNELS_CPU_SIMD_INL_H_
