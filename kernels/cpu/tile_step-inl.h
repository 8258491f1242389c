// One step of dot16 of many rows against 64 outputs, whose weights are unpacked once for all rows.
// Shared by GEMM, scores (outputs are keys) and sums of values (outputs are dimensions). Included
// once a Highway target; runs rounding toward zero.

#if defined(ISOBIT_KERNELS_CPU_TILE_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOBIT_KERNELS_CPU_TILE_STEP_INL_H_
#undef ISOBIT_KERNELS_CPU_TILE_STEP_INL_H_
#else
#define ISOBIT_KERNELS_CPU_TILE_STEP_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "kernels/cpu/activation_step.h"
#include "kernels/cpu/dot16_simd-inl.h"
#include "kernels/cpu/tile_check.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// The 64 outputs are 4 quarters of 16. A register of fp32 holds kLanes of a quarter; the registers
// at the same place of all quarters are a column, and share words of exponent bytes: byte 0 belongs
// to quarter 0, 1 to quarter 2, 2 to quarter 1 and 3 to quarter 3.
inline constexpr int kQuarter = kTileLanes / 4;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));
inline constexpr int kColumns = kQuarter / kLanes;

// 16 weights of 64 outputs.
struct UnpackedStep {
  alignas(64) float value[kColumns][kDotTerms][4][kLanes];
  alignas(64) uint32_t exponent[kColumns][kDotTerms][kLanes];
};

// What a tile has seen, to be checked at its end.
struct TileGuard {
  Ints min_exponent;
  Uints max_sum;
  hn::Vec<ByteTag> max_weight;  // exponent bytes

  HWY_INLINE TileGuard()
      : min_exponent(hn::Set(IntTag(), static_cast<int32_t>(kExponentMask))),
        max_sum(hn::Zero(UintTag())),
        max_weight(hn::Zero(ByteTag())) {}

  HWY_INLINE TileCheck Result() const {
    TileCheck check;
    check.min_exponent = hn::GetLane(hn::MinOfLanes(IntTag(), min_exponent)) >> 23;
    check.wrapped = hn::GetLane(hn::MaxOfLanes(UintTag(), max_sum)) > uint32_t{kMaxSafeSum};
    alignas(64) uint8_t bytes[4 * kLanes];
    hn::Store(max_weight, ByteTag(), bytes);
    const int largest = *std::max_element(bytes, bytes + 4 * kLanes);
    check.max_weight_exponent = std::max(0, largest - kWeightOffset);
    return check;
  }
};

// A view of the guard for one DotStep.
template <bool kWatchSums>
struct StepGuard {
  TileGuard& tile;
  HWY_INLINE void Note(int, Ints exponent, Ints sum) {
    tile.min_exponent = hn::Min(tile.min_exponent, exponent);
    if constexpr (kWatchSums) {
      tile.max_sum = hn::Max(tile.max_sum, hn::BitCast(UintTag(), hn::Abs(sum)));
    }
  }
};

// Stores index k of a column. Words are two bf16: those of `first` go to quarters 0 (lower half)
// and 1 (upper half), those of `second` to quarters 2 and 3.
HWY_INLINE void UnpackWords(Uints first, Uints second, int column, int k, UnpackedStep& step,
                            TileGuard& guard) {
  const FloatTag df;
  const UintTag du;
  const ByteTag db;
  const auto upper = hn::Set(du, kUpperHalf);
  const auto even_bytes = hn::Set(du, 0x00ff00ffu);
  float(&value)[4][kLanes] = step.value[column][k];
  hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(first)), df, value[0]);
  hn::Store(hn::BitCast(df, hn::And(first, upper)), df, value[1]);
  hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(second)), df, value[2]);
  hn::Store(hn::BitCast(df, hn::And(second, upper)), df, value[3]);
  const auto fields = hn::Or(hn::And(hn::ShiftRight<7>(first), even_bytes),
                             hn::AndNot(even_bytes, hn::Add(second, second)));
  const auto bytes = hn::SaturatedAdd(hn::BitCast(db, fields), hn::Set(db, kWeightOffset));
  guard.max_weight = hn::Max(guard.max_weight, bytes);
  hn::Store(hn::BitCast(du, bytes), du, step.exponent[column][k]);
}

// 16 rows of weights. Row k has 16 words at first + k * stride and 16 more at second + k * stride:
// quarter 0 gets the lower halves of the first, quarter 1 the upper halves, 2 and 3 those of the
// second.
HWY_INLINE void UnpackRows(const Bf16* first, const Bf16* second, int64_t stride,
                           UnpackedStep& step, TileGuard& guard) {
  const UintTag du;
  for (int k = 0; k < kDotTerms; ++k) {
    const uint32_t* p = reinterpret_cast<const uint32_t*>(first + k * stride);
    const uint32_t* q = reinterpret_cast<const uint32_t*>(second + k * stride);
    for (int column = 0; column < kColumns; ++column) {
      UnpackWords(hn::LoadU(du, p + column * kLanes), hn::LoadU(du, q + column * kLanes), column, k,
                  step, guard);
    }
  }
}

// One row against one column of its accumulators c[64].
template <bool kWatchSums>
HWY_INLINE void ColumnStep(const UnpackedStep& b, int column, const ActivationStep& a,
                           TileGuard& guard, float* c) {
  const FloatTag df;
  const UintTag du;
  const IntTag di;
  const ByteTag db;
  auto largest = hn::Set(db, kSearchFloor);
  for (int k = 0; k < kDotTerms; ++k) {
    const auto weight = hn::BitCast(db, hn::Load(du, b.exponent[column][k]));
    const auto activation = hn::BitCast(db, hn::Set(du, a.exponent[k]));
    largest = hn::Max(largest, hn::SaturatedSub(weight, activation));
  }
  const auto words = hn::BitCast(du, largest);
  const auto mask = hn::Set(du, kExponentMask);
  const Ints exponent[4] = {hn::BitCast(di, hn::And(hn::ShiftLeft<23>(words), mask)),
                            hn::BitCast(di, hn::And(hn::ShiftLeft<7>(words), mask)),
                            hn::BitCast(di, hn::And(hn::ShiftLeft<15>(words), mask)),
                            hn::BitCast(di, hn::And(hn::ShiftRight<1>(words), mask))};
  float* const at = c + column * kLanes;
  Floats acc[4];
  for (int v = 0; v < 4; ++v) acc[v] = hn::Load(df, at + v * kQuarter);
  const auto product = [&](int k, int v) HWY_ATTR {
    return hn::Mul(hn::Load(df, b.value[column][k][v]), hn::Set(df, a.value[k]));
  };
  StepGuard<kWatchSums> step_guard{guard};
  DotStep(exponent, product, step_guard, acc);
  for (int v = 0; v < 4; ++v) hn::Store(acc[v], df, at + v * kQuarter);
}

// One row against all 64 outputs.
HWY_INLINE void RowStep(const UnpackedStep& b, const ActivationStep& a, StepKind kind,
                        TileGuard& guard, float* c) {
  if (kind == StepKind::kZero) return;
  for (int column = 0; column < kColumns; ++column) {
    if (kind == StepKind::kSafe) {
      ColumnStep<false>(b, column, a, guard, c);
    } else {
      ColumnStep<true>(b, column, a, guard, c);
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#endif  // ISOBIT_KERNELS_CPU_TILE_STEP_INL_H_
