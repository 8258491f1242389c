#include "kernels/cpu/gemm_kernel.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/dot16_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// Without vectors every output is computed literally: that is what these answers ask for.
RowInfo PrepareRow(const Bf16*, int64_t, ActivationForm, ActivationStep*, uint8_t*) {
  return {kNonFiniteExponent, false};
}
uint32_t RowKernel(const Bf16*, uint32_t, int64_t, const ActivationStep*, const uint8_t*, int,
                   float*) {
  return ~uint32_t{0};
}
bool TileKernel(const GemmTile&, float*) { return false; }

#else

// Lanes of a register of fp32, and how many registers half a panel takes.
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));
inline constexpr int kColumns = kPanelLanes / 2 / kLanes;

// Exponent field that the search starts from in lanes whose weights are all zero: nothing there can
// be wrong, and no check needs to fail.
inline constexpr int kZeroLaneExponent = 127;

// 16 activations as they come, with zeros past the end of the row.
struct StepInput {
  alignas(64) uint16_t bits[kDotTerms] = {};
};

RowInfo PrepareRow(const Bf16* x, int64_t cols, ActivationForm form, ActivationStep* steps,
                   uint8_t* live) {
  const UintTag du;
  const FloatTag df;
  const hn::Rebind<uint16_t, UintTag> dh;
  // Significands have 7 fraction bits. 16 products and C reach 2^31 only if the significands of the
  // activations sum to more than 62 / (255 / 128) = 31.12, the weights' being at most 255 / 128.
  constexpr uint32_t kMaxSignificands = 31 * 128;
  const auto replicate =
      hn::Set(du, form == ActivationForm::kTile ? 0x01010101u : (1u << 7) | (1u << 23));
  const auto ones = hn::Set(du, 1);
  auto row_max = hn::Zero(du);
  bool may_wrap = false;
  const int64_t count = (cols + kDotTerms - 1) / kDotTerms;
  for (int64_t s = 0; s < count; ++s) {
    StepInput padded;
    const uint16_t* in = reinterpret_cast<const uint16_t*>(x + s * kDotTerms);
    if ((s + 1) * kDotTerms > cols) {
      std::copy(in, in + (cols - s * kDotTerms), padded.bits);
      in = padded.bits;
    }
    auto step_max = hn::Zero(du);
    auto significands = hn::Zero(du);
    for (int i = 0; i < kDotTerms; i += kLanes) {
      const auto bits = hn::PromoteTo(du, hn::LoadU(dh, in + i));
      hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(bits)), df, steps[s].value + i);
      const auto magnitude = hn::And(bits, hn::Set(du, 0x7fff));
      step_max = hn::Max(step_max, magnitude);
      significands =
          hn::Add(significands, hn::Or(hn::And(bits, hn::Set(du, 0x7f)), hn::Set(du, 0x80)));
      const auto zero = hn::Eq(magnitude, hn::Zero(du));
      auto field = hn::Max(hn::ShiftRight<7>(magnitude), ones);
      if (form == ActivationForm::kTile) {
        field = hn::Sub(hn::Set(du, kActivationTop), hn::Min(field, hn::Set(du, kActivationTop)));
        field = hn::IfThenElse(zero, hn::Set(du, 255), field);
      } else {
        field = hn::IfThenZeroElse(zero, field);
      }
      hn::Store(hn::Mul(field, replicate), du, steps[s].exponent + i);
    }
    row_max = hn::Max(row_max, step_max);
    live[s] = hn::AllTrue(du, hn::Eq(step_max, hn::Zero(du))) ? 0 : 1;
    if (form == ActivationForm::kTile) {
      may_wrap |= hn::GetLane(hn::SumOfLanes(du, significands)) > kMaxSignificands;
    }
  }
  return {static_cast<int>(hn::GetLane(hn::MaxOfLanes(du, row_max)) >> 7), may_wrap};
}

uint32_t RowKernel(const Bf16* panel, uint32_t zero_lanes, int64_t steps,
                   const ActivationStep* activations, const uint8_t* live, int min_safe_exponent,
                   float* out) {
  const FloatTag df;
  const UintTag du;
  const IntTag di;
  const HalfTag dh;
  // Exponents are searched in 16-bit lanes, at bit 7, with a bias of 2 * 127.
  alignas(64) uint16_t floor[kPanelLanes] = {};
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    if ((zero_lanes >> lane & 1) != 0) {
      floor[PackedWeight::LaneElement(lane)] = (kZeroLaneExponent + 127) << 7;
    }
  }
  const auto field = hn::Set(dh, 0x7f80);
  const auto bias = hn::Set(dh, 127 << 7);
  const auto upper = hn::Set(du, kUpperHalf);

  Floats c[kColumns][2];
  LaneGuard<2> guard[kColumns];
  for (auto& column : c) column[0] = column[1] = hn::Zero(df);
  const uint16_t* weights = reinterpret_cast<const uint16_t*>(panel);
  for (int64_t s = 0; s < steps; ++s, weights += kDotTerms * kPanelLanes) {
    if (live[s] == 0) continue;
    const ActivationStep& a = activations[s];
    for (int column = 0; column < kColumns; ++column) {
      const uint16_t* b = weights + column * 2 * kLanes;
      auto largest = hn::Load(dh, floor + column * 2 * kLanes);
      for (int k = 0; k < kDotTerms; ++k) {
        const auto sum = hn::Add(hn::And(hn::Load(dh, b + k * kPanelLanes), field),
                                 hn::BitCast(dh, hn::Set(du, a.exponent[k])));
        largest = hn::Max(largest, sum);
      }
      const auto pairs = hn::BitCast(du, hn::SaturatedSub(largest, bias));
      const Ints exponent[2] = {hn::BitCast(di, hn::ShiftLeft<16>(pairs)),
                                hn::BitCast(di, hn::And(pairs, upper))};
      const auto product = [&](int k, int v) HWY_ATTR {
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
      hn::Store(guard[column].Failed(v, min_safe_exponent), di, failed + lane);
    }
  }
  uint32_t mask = 0;
  for (int lane = 0; lane < kPanelLanes; ++lane)
    mask |= static_cast<uint32_t>(failed[lane] & 1) << lane;
  return mask;
}

// 16 weights of 64 outputs. Of each column of lanes, vectors 0 and 2 are those of the first panel's
// lower and upper half, 1 and 3 of the second's. Byte v of an exponent word belongs to vector v.
struct UnpackedStep {
  alignas(64) float value[kColumns][kDotTerms][4][kLanes];
  alignas(64) uint32_t exponent[kColumns][kDotTerms][kLanes];
  alignas(64) uint32_t floor[kColumns][kLanes];
};

// Where lanes of vector v of a column stand in the 64 outputs of a tile.
constexpr int TileLane(int column, int v) {
  return (v & 1) * kPanelLanes + (v >> 1) * (kPanelLanes / 2) + column * kLanes;
}

void UnpackFloor(const uint32_t* zero_lanes, UnpackedStep& step) {
  for (int column = 0; column < kColumns; ++column) {
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t word = 0;
      for (int v = 0; v < 4; ++v) {
        const int tile_lane = TileLane(column, v) + lane;
        const bool zero = zero_lanes[tile_lane / kPanelLanes] >> (tile_lane % kPanelLanes) & 1;
        word |= static_cast<uint32_t>(zero ? kZeroLaneExponent : 0) << (8 * v);
      }
      step.floor[column][lane] = word;
    }
  }
}

HWY_INLINE void UnpackStep(const Bf16* const* panel, int64_t s, UnpackedStep& step) {
  const FloatTag df;
  const UintTag du;
  const ByteTag db;
  const uint32_t* first =
      reinterpret_cast<const uint32_t*>(panel[0]) + s * kDotTerms * kPanelLanes / 2;
  const uint32_t* second =
      reinterpret_cast<const uint32_t*>(panel[1]) + s * kDotTerms * kPanelLanes / 2;
  const auto upper = hn::Set(du, kUpperHalf);
  const auto even_bytes = hn::Set(du, 0x00ff00ffu);
  const auto offset = hn::Set(db, kWeightOffset);
  for (int k = 0; k < kDotTerms; ++k) {
    for (int column = 0; column < kColumns; ++column) {
      const int at = k * (kPanelLanes / 2) + column * kLanes;
      const auto p = hn::Load(du, first + at);
      const auto q = hn::Load(du, second + at);
      float(&value)[4][kLanes] = step.value[column][k];
      hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(p)), df, value[0]);
      hn::Store(hn::BitCast(df, hn::ShiftLeft<16>(q)), df, value[1]);
      hn::Store(hn::BitCast(df, hn::And(p, upper)), df, value[2]);
      hn::Store(hn::BitCast(df, hn::And(q, upper)), df, value[3]);
      const auto fields =
          hn::Or(hn::And(hn::ShiftRight<7>(p), even_bytes), hn::AndNot(even_bytes, hn::Add(q, q)));
      hn::Store(hn::BitCast(du, hn::Add(hn::BitCast(db, fields), offset)), du,
                step.exponent[column][k]);
    }
  }
}

// One step of one row against one column of lanes.
HWY_INLINE void TileStep(const UnpackedStep& b, int column, const ActivationStep& a,
                         ExponentGuard& guard, float* out) {
  const FloatTag df;
  const UintTag du;
  const IntTag di;
  const ByteTag db;
  auto largest = hn::BitCast(db, hn::Load(du, b.floor[column]));
  for (int k = 0; k < kDotTerms; ++k) {
    const auto weight = hn::BitCast(db, hn::Load(du, b.exponent[column][k]));
    const auto activation = hn::BitCast(db, hn::Set(du, a.exponent[k]));
    largest = hn::Max(largest, hn::SaturatedSub(weight, activation));
  }
  const auto words = hn::BitCast(du, largest);
  const auto mask = hn::Set(du, kExponentMask);
  const Ints exponent[4] = {hn::BitCast(di, hn::And(hn::ShiftLeft<23>(words), mask)),
                            hn::BitCast(di, hn::And(hn::ShiftLeft<15>(words), mask)),
                            hn::BitCast(di, hn::And(hn::ShiftLeft<7>(words), mask)),
                            hn::BitCast(di, hn::And(hn::ShiftRight<1>(words), mask))};
  Floats c[4];
  for (int v = 0; v < 4; ++v) c[v] = hn::Load(df, out + TileLane(column, v));
  const auto product = [&](int k, int v) HWY_ATTR {
    return hn::Mul(hn::Load(df, b.value[column][k][v]), hn::Set(df, a.value[k]));
  };
  DotStep(exponent, product, guard, c);
  for (int v = 0; v < 4; ++v) hn::Store(c[v], df, out + TileLane(column, v));
}

bool TileKernel(const GemmTile& tile, float* out) {
  UnpackedStep step;
  UnpackFloor(tile.zero_lanes, step);
  std::fill(out, out + tile.rows * kTileLanes, 0.0f);
  ExponentGuard guard;
  for (int64_t s = 0; s < tile.steps; ++s) {
    UnpackStep(tile.panel, s, step);
    for (int row = 0; row < tile.rows; ++row) {
      if (tile.live[row * tile.steps + s] == 0) continue;
      const ActivationStep& a = tile.activations[row * tile.steps + s];
      for (int column = 0; column < kColumns; ++column) {
        TileStep(step, column, a, guard, out + row * kTileLanes);
      }
    }
  }
  return !guard.Failed(tile.min_safe_exponent);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(PrepareRow);
HWY_EXPORT(RowKernel);
HWY_EXPORT(TileKernel);

GemmKernels SelectGemmKernels(const CpuContext& context) {
  return {SelectKernel(HWY_DISPATCH_TABLE(PrepareRow), context),
          SelectKernel(HWY_DISPATCH_TABLE(RowKernel), context),
          SelectKernel(HWY_DISPATCH_TABLE(TileKernel), context)};
}

}  // namespace isobit
#endif  // HWY_ONCE
