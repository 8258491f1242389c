#ifndef ISOBIT_KERNELS_NUMERICS_ATTENTION_H_
#define ISOBIT_KERNELS_NUMERICS_ATTENTION_H_

// Attention of one query row and one head, in the order of contract 4. This is the specification
// that kernels are written from and compared with; it is exact in every case and fast in none.
//
// Keys are taken by absolute position: splits of 1024, in them blocks of 64, in them groups of 16.
// Nothing but the query, the keys and values it may see, and their positions enters a result. Bits
// depend on nothing else: not on chunks of a prefill, pages, other rows, or who works on a split.
//
// What a kernel may do instead:
//  - Inside a split, as long as every |score| of a row stayed below scale.threshold and its bucket
//    is 0 (the normal case by far), nothing is rescaled and blocks can't be seen: use any tile. The
//    exact path below follows blocks of 64 literally.
//  - Skip blocks or groups without a visible key, or run them with p = 0 and v = 0: the same bits.
//    Values of keys that a row does not see must not be multiplied even by 0 unless they are known
//    to be finite.
//  - Split O by columns, scores by keys, splits by processor: only the order of dot16 steps within
//    one accumulator, and of merges, is fixed.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/dot16.h"
#include "kernels/numerics/grid_exp.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/scalar.h"

namespace isobit {

inline constexpr int kSplitKeys = 1024;
inline constexpr int kBlockKeys = 64;
inline constexpr int kMaxHeadDim = 512;

// The running maximum moves in steps of 64 (in log2 units), so that every exponential has its
// argument on the same grid and a rescale is a product with 2^-64.
inline constexpr int kBucketStep = 64;
// Buckets saturate here: fp32 still holds them and kGridOffset - bucket exactly. Scores beyond
// (millions of times what a model produces) have defined bits but no meaning.
inline constexpr float kBucketLimit = 0x1p+23f;

namespace attention_internal {

inline constexpr double kLog2EDouble = 0x1.71547652b82fep+0;

}  // namespace attention_internal

// c = fp32(log2(e) * softmax_scale), one double product rounded once to fp32.
ISOBIT_HOST_DEVICE inline float ScoreScaleFrom(double softmax_scale) {
  return static_cast<float>(ieee::Mul(attention_internal::kLog2EDouble, softmax_scale));
}

// c = fp32(log2(e) / sqrt(head_dim)); equal to ScoreScaleFrom(1 / sqrt(head_dim)).
ISOBIT_HOST_DEVICE inline float ScoreScale(int head_dim) {
  return static_cast<float>(
      ieee::Div(attention_internal::kLog2EDouble, ieee::Sqrt(static_cast<double>(head_dim))));
}

// T = the largest power of two with T * c <= 66. REQUIRES: 2^-64 <= c <= 2^64.
ISOBIT_HOST_DEVICE inline float BucketThreshold(float c) {
  double threshold = 0x1p+80;
  while (ieee::Mul(threshold, static_cast<double>(c)) > 66.0) threshold = ieee::Mul(threshold, 0.5);
  return static_cast<float>(threshold);
}

struct AttentionScale {
  float c;          // scores to log2 units
  float threshold;  // T: scores below it in magnitude need no bucket
  // With a soft cap, scores are scaled before it, and c is log2(e).
  float softmax_scale = 1.0f;
  float soft_cap = 0.0f;  // 0: none
};

ISOBIT_HOST_DEVICE inline AttentionScale MakeAttentionScale(double softmax_scale,
                                                            float soft_cap = 0.0f) {
  const float c = ScoreScaleFrom(soft_cap > 0.0f ? 1.0 : softmax_scale);
  return {c, BucketThreshold(c), static_cast<float>(softmax_scale), soft_cap};
}

// S_j of a finished dot product: itself, or capped.
ISOBIT_HOST_DEVICE inline float CapScore(float dot, const AttentionScale& scale) {
  if (!(scale.soft_cap > 0.0f)) return dot;
  return SoftCap(ieee::Mul(dot, scale.softmax_scale), scale.soft_cap);
}

// B of a block whose largest score is m: 0 if |m| < T, else m * c cut toward zero to a multiple of
// 64. m is not NaN.
ISOBIT_HOST_DEVICE inline float Bucket(float m, float c, float threshold) {
  if (-threshold < m && m < threshold) return 0.0f;
  float x = ieee::Mul(m, c);
  if (x > kBucketLimit) x = kBucketLimit;
  if (x < -kBucketLimit) x = -kBucketLimit;
  const int32_t steps = static_cast<int32_t>(x) / kBucketStep;
  return static_cast<float>(steps * kBucketStep);
}

// v times 2^-64, `steps` times, each product rounded. Five products take any finite number to zero,
// where more change nothing.
ISOBIT_HOST_DEVICE inline float ScaleDown(float v, int steps) {
  for (int i = 0; i < steps && i < 5; ++i) v = ieee::Mul(v, 0x1p-64f);
  return v;
}

// How many steps lie between two buckets. REQUIRES: high >= low.
ISOBIT_HOST_DEVICE inline int BucketSteps(float high, float low) {
  return static_cast<int>(ieee::Sub(high, low)) / kBucketStep;
}

// The state of a row in one split, or of several merged splits.
struct AttentionState {
  bool empty = true;     // no block with a visible key was seen yet: the rest is not defined
  float bucket = 0.0f;   // M
  float l = 0.0f;        // sum of p
  float o[kMaxHeadDim];  // sum of p * v
};

// Raises the bucket of `state` to `bucket`, or leaves it if it is higher.
ISOBIT_HOST_DEVICE inline void RaiseBucket(float bucket, int head_dim, AttentionState& state) {
  if (state.bucket >= bucket) return;
  const int steps = BucketSteps(bucket, state.bucket);
  state.l = ScaleDown(state.l, steps);
  for (int d = 0; d < head_dim; ++d) state.o[d] = ScaleDown(state.o[d], steps);
  state.bucket = bucket;
}

// One block: keys [block_begin, block_begin + 64), of which the row sees those in [first_key,
// last_key]. key_at(j) and value_at(j) give the head_dim elements of key and value at position j;
// they are asked only for keys that the row sees.
template <typename KeyAt, typename ValueAt>
ISOBIT_HOST_DEVICE void AttendBlock(const Bf16* q, int head_dim, AttentionScale scale,
                                    int64_t block_begin, int64_t first_key, int64_t last_key,
                                    const KeyAt& key_at, const ValueAt& value_at,
                                    AttentionState& state) {
  float score[kBlockKeys] = {};
  bool visible[kBlockKeys] = {};
  bool any_visible = false;
  float m = BitsFloat(0xff800000u);
  for (int j = 0; j < kBlockKeys; ++j) {
    const int64_t key = block_begin + j;
    visible[j] = first_key <= key && key <= last_key;
    if (!visible[j]) continue;
    any_visible = true;
    score[j] = CapScore(DotChain(q, key_at(key), head_dim), scale);
    // A NaN is passed over here; its p makes the whole row NaN.
    if (score[j] > m) m = score[j];
  }
  if (!any_visible) return;

  const float bucket = Bucket(m, scale.c, scale.threshold);
  if (state.empty) {
    // The first block of a split sets the bucket, even below 0.
    state.empty = false;
    state.bucket = bucket;
    state.l = 0.0f;
    for (int d = 0; d < head_dim; ++d) state.o[d] = 0.0f;
  } else {
    RaiseBucket(bucket, head_dim, state);
  }

  Bf16 p[kBlockKeys] = {};
  for (int j = 0; j < kBlockKeys; ++j) {
    if (visible[j]) p[j] = GridExp2(GridPoint(score[j], scale.c, state.bucket));
  }
  const Bf16 one = kOneBf16;
  for (int g = 0; g < kBlockKeys; g += kDotTerms) {
    state.l = Dot16(state.l, p + g, 1, &one, 0);
    const Bf16* value[kDotTerms] = {};
    for (int j = 0; j < kDotTerms; ++j) {
      if (visible[g + j]) value[j] = value_at(block_begin + g + j);
    }
    for (int d = 0; d < head_dim; ++d) {
      Bf16 column[kDotTerms] = {};
      for (int j = 0; j < kDotTerms; ++j) {
        if (visible[g + j]) column[j] = value[j][d];
      }
      state.o[d] = Dot16(state.o[d], p + g, column);
    }
  }
}

// One split: keys [1024 * split, 1024 * split + 1023].
template <typename KeyAt, typename ValueAt>
ISOBIT_HOST_DEVICE void AttendSplit(const Bf16* q, int head_dim, AttentionScale scale,
                                    int64_t split, int64_t first_key, int64_t last_key,
                                    const KeyAt& key_at, const ValueAt& value_at,
                                    AttentionState& state) {
  state.empty = true;
  const int64_t begin = split * kSplitKeys;
  for (int64_t block = begin; block < begin + kSplitKeys; block += kBlockKeys) {
    AttendBlock(q, head_dim, scale, block, first_key, last_key, key_at, value_at, state);
  }
}

// Merges a later split into the merge of all earlier ones. Splits without a visible key take no
// part, and the first that has one is taken as it is.
ISOBIT_HOST_DEVICE inline void MergeSplit(AttentionState split, int head_dim,
                                          AttentionState& merged) {
  if (split.empty) return;
  if (merged.empty) {
    merged = split;
    return;
  }
  RaiseBucket(split.bucket, head_dim, merged);
  RaiseBucket(merged.bucket, head_dim, split);
  merged.l = ieee::Add(merged.l, split.l);
  for (int d = 0; d < head_dim; ++d) merged.o[d] = ieee::Add(merged.o[d], split.o[d]);
}

// out[d] = bf16(o[d] * (1 / l)).
ISOBIT_HOST_DEVICE inline void FinishAttention(const AttentionState& merged, int head_dim,
                                               Bf16* out) {
  const float inverse = ieee::Div(1.0f, merged.l);
  for (int d = 0; d < head_dim; ++d) out[d] = RoundToBf16(ieee::Mul(merged.o[d], inverse));
}

// The first key that a row at `position` sees: all before it, or with a sliding window the last
// `window` ones, its own included. window <= 0: no window.
ISOBIT_HOST_DEVICE constexpr int64_t FirstVisibleKey(int64_t position, int64_t window) {
  return window <= 0 || position < window ? 0 : position - window + 1;
}

// A whole row: the keys [first_key, last_key] that it sees; last_key is its own position.
// REQUIRES: 0 <= first_key <= last_key, 0 < head_dim <= kMaxHeadDim.
template <typename KeyAt, typename ValueAt>
ISOBIT_HOST_DEVICE void AttendRow(const Bf16* q, int head_dim, AttentionScale scale,
                                  int64_t first_key, int64_t last_key, const KeyAt& key_at,
                                  const ValueAt& value_at, Bf16* out) {
  AttentionState merged;
  AttentionState split;
  for (int64_t s = first_key / kSplitKeys; s <= last_key / kSplitKeys; ++s) {
    AttendSplit(q, head_dim, scale, s, first_key, last_key, key_at, value_at, split);
    MergeSplit(split, head_dim, merged);
  }
  FinishAttention(merged, head_dim, out);
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_ATTENTION_H_
