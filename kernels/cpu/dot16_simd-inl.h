// dot16 (contract 1) in vectors: lanes are outputs, each with a chain of its own. Included once a
// Highway target.
//
// The arithmetic. Let e be the largest exponent among the 16 products and C. Then
//
//     D = float(sum of int(a_k b_k 2^(25 - e)) + int(C 2^(25 - e))) 2^(e - 25)
//
// with every conversion toward zero: a product of two bf16 has 16 significant bits and is exact in
// fp32, scaling by a power of two is exact, a truncated term has at most 27 bits, and 16 of them
// fit an int32. Conversions to int32 truncate by themselves; the one to fp32 follows the rounding
// mode, which must be toward zero (rounding_mode.h). Every other operation is exact, so nothing
// else depends on the mode.
//
// Where it holds. Callers see to it that ExponentsAreSafe(), and check what a guard has seen over a
// whole chain, once (dot16_limits.h):
//  - Exponents were at least RequiredExponent().
//  - Sums did not wrap: 16 products and C can exceed an int32 if nearly all products are near the
//    maximum. The wrapped sum is then still above kMaxSafeSum in magnitude.
// A chain that fails is computed again by DotChain of kernels/numerics/dot16.h.

#if defined(ISOBIT_KERNELS_CPU_DOT16_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOBIT_KERNELS_CPU_DOT16_SIMD_INL_H_
#undef ISOBIT_KERNELS_CPU_DOT16_SIMD_INL_H_
#else
#define ISOBIT_KERNELS_CPU_DOT16_SIMD_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/dot16_limits.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/numerics/dot16.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // which has no lanes narrower than fp32

using Ints = hn::Vec<IntTag>;
using Uints = hn::Vec<UintTag>;
using ByteTag = hn::Repartition<uint8_t, UintTag>;
using HalfTag = hn::Repartition<uint16_t, UintTag>;

// Exponent fields stand where an fp32 has them.
inline constexpr uint32_t kExponentMask = 0x7f800000u;
inline constexpr uint32_t kUpperHalf = 0xffff0000u;

// Toward zero. REQUIRES: |x| < 2^31; anything else gives any number.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
HWY_INLINE Ints TruncateToInt(Floats x) { return Ints{_mm512_cvttps_epi32(x.raw)}; }
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
HWY_INLINE Ints TruncateToInt(Floats x) { return Ints{_mm256_cvttps_epi32(x.raw)}; }
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
HWY_INLINE Ints TruncateToInt(Floats x) { return Ints{_mm_cvttps_epi32(x.raw)}; }
#else
HWY_INLINE Ints TruncateToInt(Floats x) { return hn::ConvertTo(IntTag(), x); }
#endif

// 2^(25 - e) and 2^(e - 25) from the exponent field of e (bias 127) in place.
HWY_INLINE Floats ScaleToUnit(Ints exponent) {
  constexpr uint32_t kBias = uint32_t{127 + 127 + kAlignedBits} << 23;
  return hn::BitCast(FloatTag(), hn::Sub(hn::Set(IntTag(), static_cast<int32_t>(kBias)), exponent));
}
HWY_INLINE Floats ScaleFromUnit(Ints exponent) {
  constexpr int32_t kBias = kAlignedBits << 23;
  return hn::BitCast(FloatTag(), hn::Sub(exponent, hn::Set(IntTag(), kBias)));
}

// Keeps what must be checked of kVectors chains, lane by lane.
template <int kVectors>
struct LaneGuard {
  Ints min_exponent[kVectors];
  Uints max_sum[kVectors];

  HWY_INLINE LaneGuard() {
    for (int v = 0; v < kVectors; ++v) {
      min_exponent[v] = hn::Set(IntTag(), static_cast<int32_t>(kExponentMask));
      max_sum[v] = hn::Zero(UintTag());
    }
  }
  HWY_INLINE void Note(int v, Ints exponent, Ints sum) {
    min_exponent[v] = hn::Min(min_exponent[v], exponent);
    max_sum[v] = hn::Max(max_sum[v], hn::BitCast(UintTag(), hn::Abs(sum)));
  }
  // Whether a lane of vector v failed: all ones in that lane.
  HWY_INLINE Ints Failed(int v, int required_exponent) const {
    const auto low = hn::Lt(min_exponent[v], hn::Set(IntTag(), required_exponent << 23));
    // Sums are compared as signed numbers: a magnitude of 2^31 is negative, and unsafe.
    const auto sum = hn::BitCast(IntTag(), max_sum[v]);
    const auto wrapped =
        hn::Or(hn::Gt(sum, hn::Set(IntTag(), kMaxSafeSum)), hn::Lt(sum, hn::Zero(IntTag())));
    return hn::VecFromMask(IntTag(), hn::Or(low, wrapped));
  }
};

// One step of kVectors chains c. product_exponent[v]: the largest exponent field of the products,
// in place. product(k, v): the products of index k, exact.
template <int kVectors, class Product, class Guard>
HWY_INLINE void DotStep(const Ints (&product_exponent)[kVectors], const Product& product,
                        Guard& guard, Floats (&c)[kVectors]) {
  const IntTag di;
  Ints exponent[kVectors];
  Floats scale[kVectors];
  Ints sum[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const auto c_exponent =
        hn::And(hn::BitCast(di, c[v]), hn::Set(di, static_cast<int32_t>(kExponentMask)));
    exponent[v] = hn::Max(product_exponent[v], c_exponent);
    scale[v] = ScaleToUnit(exponent[v]);
    sum[v] = TruncateToInt(hn::Mul(c[v], scale[v]));
  }
  for (int k = 0; k < kDotTerms; ++k) {
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::Add(sum[v], TruncateToInt(hn::Mul(product(k, v), scale[v])));
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    guard.Note(v, exponent[v], sum[v]);
    c[v] = hn::Mul(hn::ConvertTo(FloatTag(), sum[v]), ScaleFromUnit(exponent[v]));
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#endif  // ISOBIT_KERNELS_CPU_DOT16_SIMD_INL_H_
