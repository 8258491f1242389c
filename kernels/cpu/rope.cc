#include "kernels/cpu/rope.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "kernels/cpu/kv_cache.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isobit {
namespace HWY_NAMESPACE {

// RotateHead of kernels/numerics/rope.h in vectors. `out` may be `x`.
void RotateHeadSimd(const Bf16* x, int head_dim, int rotary_dim, const float* cos, const float* sin,
                    Bf16* out) {
  const FloatTag df;
  const int lanes = static_cast<int>(hn::Lanes(df));
  const int pairs = rotary_dim / 2;
  int i = 0;
  if constexpr (kFusedMulAdd) {
    for (; i + lanes <= pairs; i += lanes) {
      const auto x1 = LoadBf16(x + i);
      const auto x2 = LoadBf16(x + i + pairs);
      const auto c = hn::LoadU(df, cos + i);
      const auto s = hn::LoadU(df, sin + i);
      StoreRoundedBf16(RoundedToBf16(hn::MulSub(x1, c, hn::Mul(x2, s))), out + i);
      StoreRoundedBf16(RoundedToBf16(hn::MulAdd(x2, c, hn::Mul(x1, s))), out + i + pairs);
    }
  }
  for (; i < pairs; ++i) {
    float y1 = 0.0f, y2 = 0.0f;
    RotatePair(ToFloat(x[i]), ToFloat(x[i + pairs]), cos[i], sin[i], &y1, &y2);
    out[i] = RoundToBf16(y1);
    out[i + pairs] = RoundToBf16(y2);
  }
  if (out != x) std::copy(x + rotary_dim, x + head_dim, out + rotary_dim);
}

// One head of a row: the norm if there is one, then the rotation for the row's position.
void PrepareHead(const RopeKvWrite& op, const Bf16* head, const Bf16* norm, int64_t position,
                 Bf16* out) {
  const int64_t table_row = position * (op.rotary_dim / 2);
  if (norm != nullptr) {
    RmsNormRowSimd(head, norm, op.head_dim, op.norm_eps, out);
    head = out;
  }
  RotateHeadSimd(head, op.head_dim, op.rotary_dim, op.cos + table_row, op.sin + table_row, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace isobit
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isobit {

HWY_EXPORT(PrepareHead);

void RunRopeKvWrite(CpuContext& context, const RopeKvWrite& op) {
  assert(op.head_dim <= kMaxHeadDim && op.rotary_dim % 2 == 0 && op.rotary_dim <= op.head_dim);
  const auto prepare_head = SelectKernel(HWY_DISPATCH_TABLE(PrepareHead), context);
  const RowBatch& batch = *op.batch;
  auto& cache = static_cast<CpuKvCache&>(*op.cache);
  const int page_tokens = cache.shape().page_tokens;
  const int64_t d = op.head_dim;
  const int64_t width = (op.heads + int64_t{2} * op.kv_heads) * d;
  ForRows(context, batch.rows, width, [&](int64_t r) {
    const Bf16* queries = op.qkv + r * width;
    const Bf16* keys = queries + op.heads * d;
    const Bf16* values = keys + op.kv_heads * d;
    const int32_t position = batch.position[r];
    for (int h = 0; h < op.heads; ++h) {
      prepare_head(op, queries + h * d, op.q_norm, position, op.q + (r * op.heads + h) * d);
    }
    const int32_t page =
        batch.page_table[batch.sequence[r] * batch.page_table_stride + position / page_tokens];
    const int slot = position % page_tokens;
    std::array<Bf16, kMaxHeadDim> key;
    for (int h = 0; h < op.kv_heads; ++h) {
      prepare_head(op, keys + h * d, op.k_norm, position, key.data());
      cache.WriteKey(op.layer, page, h, slot, key.data());
      cache.WriteValue(op.layer, page, h, slot, values + h * d);
    }
  });
}

}  // namespace isobit
#endif  // HWY_ONCE
