#include "kernels/cpu/gemm_kernel.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_kernel.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/dot16_simd-inl.h"
#include "kernels/cpu/tile_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// Without vectors PrepareRow finds no row fit for these.
uint32_t RowKernel(const Bf16*, int64_t, const ActivationStep*, const StepKind*, int, float*) {
  return ~uint32_t{0};
}
TileCheck TileKernel(const GemmTile&, float*) { return {}; }

#else

// Elements of a panel that belong to one step: 16 cache lines.
inline constexpr int kStepElements = kDotTerms * kPanelLanes;

// One row does less arithmetic for a weight than memory takes to deliver it. So lines are fetched
// early, one with each product: a burst of them would wait for each other. First to the second
// level cache, which can wait for many lines at once, then to the first. Distances of a multiple
// of 4 KB, four steps, would fetch to where the lines in use are.
HWY_INLINE void PrefetchLine(const uint16_t* line) {
  constexpr int kFarSteps = 14;
  constexpr int kNearSteps = 2;
  __builtin_prefetch(line + kFarSteps * kStepElements, /*rw=*/0, /*locality=*/2);
  __builtin_prefetch(line + kNearSteps * kStepElements, /*rw=*/0, /*locality=*/3);
}

uint32_t RowKernel(const Bf16* panel, int64_t steps, const ActivationStep* activations,
                   const StepKind* kinds, int required_exponent, float* out) {
  const FloatTag df;
  const UintTag du;
  const IntTag di;
  const HalfTag dh;
  // Exponents are searched in 16-bit lanes, at bit 7, with a bias of 2 * 127.
  const auto field = hn::Set(dh, 0x7f80);
  const auto floor = hn::Set(dh, (kSearchFloor + 127) << 7);
  const auto bias = hn::Set(dh, 127 << 7);
  const auto upper = hn::Set(du, kUpperHalf);

  // Chains of lanes below 16 and of the others.
  Floats c[kColumns][2];
  LaneGuard<2> guard[kColumns];
  for (auto& column : c) column[0] = column[1] = hn::Zero(df);
  const uint16_t* weights = reinterpret_cast<const uint16_t*>(panel);
  for (int64_t s = 0; s < steps; ++s, weights += kStepElements) {
    if (kinds[s] == StepKind::kZero) continue;
    const ActivationStep& a = activations[s];
    for (int column = 0; column < kColumns; ++column) {
      const uint16_t* b = weights + column * 2 * kLanes;
      auto largest = floor;
      for (int k = 0; k < kDotTerms; ++k) {
        const auto sum = hn::Add(hn::And(hn::Load(dh, b + k * kPanelLanes), field),
                                 hn::BitCast(dh, hn::Set(du, a.exponent[k])));
        largest = hn::Max(largest, sum);
      }
      const auto pairs = hn::BitCast(du, hn::Sub(largest, bias));
      const Ints exponent[2] = {hn::BitCast(di, hn::ShiftLeft<16>(pairs)),
                                hn::BitCast(di, hn::And(pairs, upper))};
      const auto product = [&](int k, int v) HWY_ATTR {
        if (v == 0 && column == 0) PrefetchLine(b + k * kPanelLanes);
        const auto pair = hn::BitCast(du, hn::Load(dh, b + k * kPanelLanes));
        const auto weight = v == 0 ? hn::ShiftLeft<16>(pair) : hn::And(pair, upper);
        return hn::Mul(hn::BitCast(df, weight), hn::Set(df, a.value[k]));
      };
      DotStep(exponent, product, guard[column], c[column]);
    }
  }

  alignas(64) int32_t failed[kPanelLanes];
  for (int column = 0; column < kColumns; ++column) {
    for (int v = 0; v < 2; ++v) {
      const int lane = v * (kPanelLanes / 2) + column * kLanes;
      hn::StoreU(c[column][v], df, out + lane);
      hn::Store(guard[column].Failed(v, required_exponent), di, failed + lane);
    }
  }
  uint32_t lanes = 0;
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    lanes |= static_cast<uint32_t>(failed[lane] & 1) << lane;
  }
  return lanes;
}

TileCheck TileKernel(const GemmTile& tile, float* out) {
  UnpackedStep step;
  TileGuard guard;
  std::fill(out, out + tile.rows * kTileLanes, 0.0f);
  for (int64_t s = 0; s < tile.steps; ++s) {
    const Bf16* const first = tile.panel[0] + s * kStepElements;
    const Bf16* const second = tile.panel[1] + s * kStepElements;
    UnpackRows(first, second, kPanelLanes, step, guard);
    for (int k = 0; k < kDotTerms; ++k) {
      hwy::Prefetch(first + kStepElements + k * kPanelLanes);
      hwy::Prefetch(second + kStepElements + k * kPanelLanes);
    }
    for (int row = 0; row < tile.rows; ++row) {
      const int64_t at = row * tile.steps + s;
      RowStep(step, tile.activations[at], tile.kinds[at], guard, out + row * kTileLanes);
    }
  }
  return guard.Result();
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(RowKernel);
HWY_EXPORT(TileKernel);

GemmKernels SelectGemmKernels(const CpuContext& context) {
  return {SelectKernel(HWY_DISPATCH_TABLE(RowKernel), context),
          SelectKernel(HWY_DISPATCH_TABLE(TileKernel), context)};
}

}  // namespace isobit
#endif  // HWY_ONCE
