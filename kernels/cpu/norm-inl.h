// RmsNormRow and WideNormRow of kernels/numerics/row_sum.h in vectors. Included once a Highway
// target.

#if defined(ISOBIT_KERNELS_CPU_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOBIT_KERNELS_CPU_NORM_INL_H_
#undef ISOBIT_KERNELS_CPU_NORM_INL_H_
#else
#define ISOBIT_KERNELS_CPU_NORM_INL_H_
#endif

#include <cstdint>

#include "kernels/cpu/simd-inl.h"
#include "kernels/numerics/row_sum.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

// The 128 lanes of contract 3 in memory, N of them at a time in a register. A lane owns 8
// neighbouring elements, so N lanes take 8 N elements: 4 words of two elements each, which are
// loaded transposed.
inline float SumOfSquaresSimd(const Bf16* x, int64_t n) {
  if constexpr (!kFusedMulAdd) return SumOfSquares(x, n);
  const FloatTag df;
  const UintTag du;
  const int64_t lanes = hn::Lanes(df);
  const int64_t step = lanes * RowSum::kRun;
  RowSum sum;
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    hn::Vec<UintTag> word[RowSum::kRun / 2];
    hn::LoadInterleaved4(du, reinterpret_cast<const uint32_t*>(x + i), word[0], word[1], word[2],
                         word[3]);
    float* const lane = sum.lane + RowSum::LaneOf(i);
    auto total = hn::LoadU(df, lane);
    for (const auto& pair : word) {
      const auto first = hn::BitCast(df, hn::ShiftLeft<16>(pair));
      const auto second = hn::BitCast(df, hn::And(pair, hn::Set(du, 0xffff0000u)));
      total = hn::MulAdd(first, first, total);
      total = hn::MulAdd(second, second, total);
    }
    hn::StoreU(total, df, lane);
  }
  for (; i < n; ++i) sum.AddSquare(i, ToFloat(x[i]));
  int64_t width = RowSum::kLanes / 2;
  for (; width >= lanes; width /= 2) {
    for (int64_t l = 0; l < width; l += lanes) {
      const auto upper = hn::LoadU(df, sum.lane + l + width);
      hn::StoreU(hn::Add(hn::LoadU(df, sum.lane + l), upper), df, sum.lane + l);
    }
  }
  for (; width >= 1; width /= 2) {
    for (int64_t l = 0; l < width; ++l) {
      sum.lane[l] = ieee::Add(sum.lane[l], sum.lane[l + width]);
    }
  }
  return sum.lane[0];
}

// `out` may be `x`.
inline void RmsNormRowSimd(const Bf16* x, const Bf16* weight, int64_t n, float eps, Bf16* out) {
  const FloatTag df;
  const int64_t lanes = hn::Lanes(df);
  const float scale = RmsScale(SumOfSquaresSimd(x, n), n, eps);
  const auto scales = hn::Set(df, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto normalised = RoundedToBf16(hn::Mul(LoadBf16(x + i), scales));
    StoreRoundedBf16(RoundedToBf16(hn::Mul(normalised, LoadBf16(weight + i))), out + i);
  }
  for (; i < n; ++i) out[i] = RmsNormElement(x[i], scale, weight[i]);
}

// `residual` may be null. `out` may be `x` or `residual`.
inline void WideNormRowSimd(const Bf16* x, const float* weight, int64_t n, float eps,
                            const Bf16* residual, Bf16* out) {
  const FloatTag df;
  const int64_t lanes = hn::Lanes(df);
  const float scale = RmsScale(SumOfSquaresSimd(x, n), n, eps);
  const auto scales = hn::Set(df, scale);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto y = hn::Mul(hn::Mul(LoadBf16(x + i), scales), hn::LoadU(df, weight + i));
    if (residual != nullptr) y = hn::Add(y, LoadBf16(residual + i));
    StoreRoundedBf16(RoundedToBf16(y), out + i);
  }
  for (; i < n; ++i) {
    out[i] = residual == nullptr ? WideNormElement(x[i], scale, weight[i])
                                 : WideNormElement(x[i], scale, weight[i], residual[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#endif  // ISOBIT_KERNELS_CPU_NORM_INL_H_
