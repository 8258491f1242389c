#include "kernels/cpu/attention_kernel.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_kernel.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/activation_step-inl.h"
#include "kernels/cpu/exp2-inl.h"
#include "kernels/cpu/tile_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

// Starts a row of a split, or raises its bucket, for a block whose largest score is m.
HWY_INLINE void UpdateBucket(float m, const AttentionScale& scale, const AttentionRows& state,
                             int row) {
  const float bucket = Bucket(m, scale.c, scale.threshold);
  float* o = state.o + int64_t{row} * state.padded_head_dim;
  if (state.empty[row]) {
    state.empty[row] = false;
    state.bucket[row] = bucket;
    state.l[row] = 0.0f;
    std::fill(o, o + state.padded_head_dim, 0.0f);
  } else if (bucket > state.bucket[row]) {
    const int steps = BucketSteps(bucket, state.bucket[row]);
    state.bucket[row] = bucket;
    state.l[row] = ScaleDown(state.l[row], steps);
    for (int d = 0; d < state.padded_head_dim; ++d) o[d] = ScaleDown(o[d], steps);
  }
}

#if HWY_TARGET == HWY_SCALAR

// Without vectors, scores and sums are computed literally: PrepareRow finds no query fit for these
// kernels, and Probabilities no row.
TileCheck Scores(const ScoreBlock&) { return {}; }
ValueCheck Values(const ValueBlock&) { return {}; }

void Probabilities(const ProbabilityBlock& block) {
  for (int row = 0; row < block.state.rows; ++row) {
    const VisibleKeys visible = block.visible[row];
    std::fill_n(block.kinds + row * kBlockSteps, kBlockSteps, StepKind::kZero);
    block.exponents[row] = {0, kNonFiniteExponent};
    if (visible.last < visible.first) continue;
    const float* scores = block.scores + row * kBlockKeys;
    float m = BitsFloat(0xff800000u);
    for (int j = visible.first; j <= visible.last; ++j) {
      if (scores[j] > m) m = scores[j];
    }
    UpdateBucket(m, block.scale, block.state, row);
    for (int j = 0; j < kBlockKeys; ++j) {
      const bool seen = visible.first <= j && j <= visible.last;
      const float x = GridPoint(scores[j], block.scale.c, block.state.bucket[row]);
      block.p[row * kBlockSteps + j / kDotTerms].value[j % kDotTerms] =
          seen ? ToFloat(GridExp2(x)) : 0.0f;
    }
  }
}

void Finish(const float* o, float l, int head_dim, Bf16* out) {
  const float inverse = ieee::Div(1.0f, l);
  for (int d = 0; d < head_dim; ++d) out[d] = RoundToBf16(ieee::Mul(o[DimensionPlace(d)], inverse));
}

#else

// 16 dimensions of 64 keys. Words hold two dimensions of a key; UnpackWords wants two keys.
HWY_INLINE void UnpackKeys(const Bf16* const* keys, const Bf16* const* next, int step_index,
                           UnpackedStep& step, TileGuard& guard) {
  const UintTag du;
  const auto upper = hn::Set(du, kUpperHalf);
  for (int pair = 0; pair < kDotTerms / 2; ++pair) {
    for (int column = 0; column < kColumns; ++column) {
      Uints words[4];
      for (int group = 0; group < 4; ++group) {
        const uint32_t* at = reinterpret_cast<const uint32_t*>(keys[group]);
        const int64_t row = int64_t{step_index} * (kDotTerms / 2) + pair;
        // A line of the block that comes next for each of this one.
        if (column == 0) hwy::Prefetch(next[group] + row * 2 * kQuarter);
        words[group] = hn::LoadU(du, at + row * kQuarter + column * kLanes);
      }
      const auto even = [&](Uints a, Uints b)
                            HWY_ATTR { return hn::Or(hn::AndNot(upper, a), hn::ShiftLeft<16>(b)); };
      const auto odd = [&](Uints a, Uints b)
                           HWY_ATTR { return hn::Or(hn::ShiftRight<16>(a), hn::And(b, upper)); };
      UnpackWords(even(words[0], words[1]), even(words[2], words[3]), column, 2 * pair, step,
                  guard);
      UnpackWords(odd(words[0], words[1]), odd(words[2], words[3]), column, 2 * pair + 1, step,
                  guard);
    }
  }
}

TileCheck Scores(const ScoreBlock& block) {
  UnpackedStep step;
  TileGuard guard;
  std::fill(block.scores, block.scores + block.rows * kBlockKeys, 0.0f);
  const int steps = block.head_dim / kDotTerms;
  for (int s = 0; s < steps; ++s) {
    UnpackKeys(block.keys, block.next, s, step, guard);
    for (int row = 0; row < block.rows; ++row) {
      const int at = row * steps + s;
      RowStep(step, block.q[at], block.kinds[at], guard, block.scores + row * kBlockKeys);
    }
  }
  return guard.Result();
}

// l plus the 16 p of a step: dot16(l, p, 1), lanes being the terms.
HWY_INLINE float SumStep(const ActivationStep& p, float l, int* min_exponent) {
  const FloatTag df;
  const IntTag di;
  const auto mask = hn::Set(di, static_cast<int32_t>(kExponentMask));
  auto largest =
      hn::Max(hn::And(hn::BitCast(di, hn::Set(df, l)), mask), hn::Set(di, kSearchFloor << 23));
  for (int i = 0; i < kDotTerms; i += kLanes) {
    largest = hn::Max(largest, hn::And(hn::BitCast(di, hn::Load(df, p.value + i)), mask));
  }
  const auto exponent = hn::MaxOfLanes(di, largest);
  *min_exponent = std::min(*min_exponent, hn::GetLane(exponent) >> 23);
  const auto scale = ScaleToUnit(exponent);
  auto sum = hn::Zero(di);
  for (int i = 0; i < kDotTerms; i += kLanes) {
    sum = hn::Add(sum, TruncateToInt(hn::Mul(hn::Load(df, p.value + i), scale)));
  }
  // 16 terms below 2^26 and l, below 2^26 too: it can't wrap.
  const auto total =
      hn::Add(hn::SumOfLanes(di, sum), TruncateToInt(hn::Mul(hn::Set(df, l), scale)));
  return hn::GetLane(hn::Mul(hn::ConvertTo(df, total), ScaleFromUnit(exponent)));
}

ValueCheck Values(const ValueBlock& block) {
  UnpackedStep step;
  TileGuard guard;
  ValueCheck check;
  const AttentionRows& state = block.state;
  for (int s = 0; s < kBlockSteps; ++s) {
    bool any = false;
    for (int row = 0; row < state.rows; ++row) {
      const int at = row * kBlockSteps + s;
      if (block.kinds[at] == StepKind::kZero) continue;
      any = true;
      state.l[row] = SumStep(block.p[at], state.l[row], &check.min_l_exponent);
    }
    if (!any) continue;
    for (int d = 0; d < state.padded_head_dim; d += kTileLanes) {
      constexpr int kLineElements = 64 / sizeof(Bf16);
      const Bf16* next = block.next[s] + int64_t{kDotTerms} * d;
      for (int line = 0; line < kDotTerms * kTileLanes / kLineElements; ++line) {
        hwy::Prefetch(next + line * kLineElements);
      }
      UnpackRows(block.values[s] + d, block.values[s] + d + kTileLanes / 2, block.stride, step,
                 guard);
      for (int row = 0; row < state.rows; ++row) {
        const int at = row * kBlockSteps + s;
        RowStep(step, block.p[at], block.kinds[at], guard,
                state.o + int64_t{row} * state.padded_head_dim + d);
      }
    }
  }
  check.o = guard.Result();
  return check;
}

// x of 2^x for the scores of a row at [j, j + lanes), on the grid.
HWY_INLINE Floats GridPoints(const float* scores, float c, float bucket) {
  const FloatTag df;
  if constexpr (kFusedMulAdd) {
    const auto offset = hn::Set(df, kGridOffset);
    const auto shifted = hn::Set(df, ieee::Sub(kGridOffset, bucket));
    return hn::Sub(hn::MulAdd(hn::Load(df, scores), hn::Set(df, c), shifted), offset);
  } else {
    alignas(64) float x[kLanes];
    for (int i = 0; i < kLanes; ++i) x[i] = GridPoint(scores[i], c, bucket);
    return hn::Load(df, x);
  }
}

// GridExp2 of kernels/numerics/grid_exp.h, as fp32.
HWY_INLINE Floats GridExp2Lanes(Floats x) {
  const FloatTag df;
  auto p = RoundedToBf16(Exp2Lanes(x));
  p = hn::IfThenZeroElse(hn::Lt(x, hn::Set(df, kGridExpMin)), p);
  const auto nan = hn::BitCast(df, hn::Set(UintTag(), uint32_t{kCanonicalNanBf16.bits} << 16));
  return hn::IfThenElse(hn::IsNaN(x), nan, p);
}

// Largest of the visible scores of a row; NaN is passed over.
HWY_INLINE float LargestScore(const float* scores, VisibleKeys visible) {
  const FloatTag df;
  const IntTag di;
  const auto lowest = hn::Set(df, BitsFloat(0xff800000u));
  auto largest = lowest;
  for (int j = 0; j < kBlockKeys; j += kLanes) {
    const auto key = hn::Iota(di, j);
    const auto hidden =
        hn::Or(hn::Lt(key, hn::Set(di, visible.first)), hn::Gt(key, hn::Set(di, visible.last)));
    const auto s = hn::Load(df, scores + j);
    const auto skipped = hn::Or(hn::RebindMask(df, hidden), hn::IsNaN(s));
    largest = hn::Max(largest, hn::IfThenElse(skipped, lowest, s));
  }
  return hn::GetLane(hn::MaxOfLanes(df, largest));
}

void ProbabilityRow(const ProbabilityBlock& block, int row) {
  const FloatTag df;
  const IntTag di;
  const UintTag du;
  const float* scores = block.scores + row * kBlockKeys;
  ActivationStep* steps = block.p + row * kBlockSteps;
  StepKind* kinds = block.kinds + row * kBlockSteps;
  const VisibleKeys visible = block.visible[row];
  block.exponents[row] = {};
  if (visible.last < visible.first) {
    std::fill(kinds, kinds + kBlockSteps, StepKind::kZero);
    return;
  }
  UpdateBucket(LargestScore(scores, visible), block.scale, block.state, row);

  const float bucket = block.state.bucket[row];
  auto largest = hn::Zero(du);
  auto smallest_less_1 = hn::Set(du, 0xffffffffu);
  for (int s = 0; s < kBlockSteps; ++s) {
    StepObserver observer;
    for (int i = 0; i < kDotTerms; i += kLanes) {
      const int j = s * kDotTerms + i;
      const auto key = hn::Iota(di, j);
      const auto hidden =
          hn::Or(hn::Lt(key, hn::Set(di, visible.first)), hn::Gt(key, hn::Set(di, visible.last)));
      const auto p = hn::IfThenZeroElse(
          hn::RebindMask(df, hidden), GridExp2Lanes(GridPoints(scores + j, block.scale.c, bucket)));
      // p is not negative: its bits are its magnitude.
      const auto bits = hn::ShiftRight<16>(hn::BitCast(du, p));
      largest = hn::Max(largest, bits);
      smallest_less_1 = hn::Min(smallest_less_1, hn::Sub(bits, hn::Set(du, 1)));
      observer.Note(bits);
      StoreStep(bits, bits, ActivationForm::kTile, i, steps[s]);
    }
    kinds[s] = observer.Kind();
  }
  const auto max = static_cast<int>(hn::GetLane(hn::MaxOfLanes(du, largest)));
  if (max == 0) return;
  const auto min = static_cast<int>(hn::GetLane(hn::MinOfLanes(du, smallest_less_1)) + 1);
  block.exponents[row] = {min >> 7, max >> 7};
  if (!block.exponents[row].finite()) std::fill(kinds, kinds + kBlockSteps, StepKind::kZero);
}

void Probabilities(const ProbabilityBlock& block) {
  for (int row = 0; row < block.state.rows; ++row) ProbabilityRow(block, row);
}

void Finish(const float* o, float l, int head_dim, Bf16* out) {
  const FloatTag df;
  const UintTag du;
  const auto inverse = hn::Set(df, ieee::Div(1.0f, l));
  for (int d = 0; d < head_dim; d += 2 * kQuarter) {
    alignas(64) uint32_t words[kQuarter];
    for (int i = 0; i < kQuarter; i += kLanes) {
      const auto even = RoundedToBf16(hn::Mul(hn::Load(df, o + d + i), inverse));
      const auto odd = RoundedToBf16(hn::Mul(hn::Load(df, o + d + kQuarter + i), inverse));
      hn::Store(hn::Or(hn::ShiftRight<16>(hn::BitCast(du, even)), hn::BitCast(du, odd)), du,
                words + i);
    }
    const int count = std::min(2 * kQuarter, head_dim - d);
    std::memcpy(out + d, words, static_cast<size_t>(count) * sizeof(Bf16));
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

void CapScores(const AttentionScale& scale, int64_t n, float* scores) {
  if constexpr (!kFusedMulAdd) {
    for (int64_t i = 0; i < n; ++i) scores[i] = CapScore(scores[i], scale);
    return;
  }
  const FloatTag df;
  const auto softmax_scale = hn::Set(df, scale.softmax_scale);
  const auto lanes = static_cast<int64_t>(hn::Lanes(df));
  for (int64_t i = 0; i < n; i += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(df, scores + i), softmax_scale);
    hn::StoreU(SoftCapLanes(scaled, scale.soft_cap), df, scores + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(Scores);
HWY_EXPORT(Values);
HWY_EXPORT(Probabilities);
HWY_EXPORT(Finish);
HWY_EXPORT(CapScores);

AttentionKernels SelectAttentionKernels(const CpuContext& context) {
  return {SelectKernel(HWY_DISPATCH_TABLE(Scores), context),
          SelectKernel(HWY_DISPATCH_TABLE(Values), context),
          SelectKernel(HWY_DISPATCH_TABLE(Probabilities), context),
          SelectKernel(HWY_DISPATCH_TABLE(Finish), context),
          SelectKernel(HWY_DISPATCH_TABLE(CapScores), context)};
}

}  // namespace isobit
#endif  // HWY_ONCE
