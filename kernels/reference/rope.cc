#include "kernels/numerics/rope.h"

#include <algorithm>
#include <vector>

#include "kernels/numerics/row_sum.h"
#include "kernels/reference/backend.h"

namespace isobit::reference {
namespace {

// Normalises one head if asked, then rotates it for `position`.
void PrepareHead(const RopeKvWrite& op, const Bf16* head, const Bf16* norm, int32_t position,
                 Bf16* out) {
  std::vector<Bf16> x(head, head + op.head_dim);
  if (norm != nullptr) RmsNormRow(x.data(), norm, op.head_dim, op.norm_eps, x.data());
  const int64_t pairs = op.rotary_dim / 2;
  RotateHead(x.data(), op.head_dim, op.rotary_dim, op.cos + position * pairs,
             op.sin + position * pairs, out);
}

}  // namespace

void Run(const RopeKvWrite& op) {
  const RowBatch& batch = *op.batch;
  auto& cache = static_cast<ReferenceKvCache&>(*op.cache);
  const int page_tokens = cache.shape().page_tokens;
  const int64_t d = op.head_dim;
  for (int64_t r = 0; r < batch.rows; ++r) {
    const Bf16* queries = op.qkv + r * (op.heads + 2 * op.kv_heads) * d;
    const Bf16* keys = queries + op.heads * d;
    const Bf16* values = keys + op.kv_heads * d;
    const int32_t position = batch.position[r];
    for (int h = 0; h < op.heads; ++h) {
      PrepareHead(op, queries + h * d, op.q_norm, position, op.q + (r * op.heads + h) * d);
    }
    const int32_t page = PageOf(batch, batch.sequence[r], position, page_tokens);
    const int slot = position % page_tokens;
    for (int h = 0; h < op.kv_heads; ++h) {
      PrepareHead(op, keys + h * d, op.k_norm, position, cache.Key(op.layer, page, h, slot));
      std::copy_n(values + h * d, d, cache.Value(op.layer, page, h, slot));
    }
  }
}

}  // namespace isobit::reference
