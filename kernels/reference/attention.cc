#include "kernels/numerics/attention.h"

#include "kernels/reference/backend.h"

namespace isobit::reference {

void Run(const Attention& op) {
  const RowBatch& batch = *op.batch;
  const auto& cache = static_cast<const ReferenceKvCache&>(*op.cache);
  const int page_tokens = cache.shape().page_tokens;
  const AttentionScale scale = MakeAttentionScale(op.softmax_scale, op.soft_cap);
  for (int64_t r = 0; r < batch.rows; ++r) {
    const int64_t last_key = batch.position[r];
    const int64_t first_key = FirstVisibleKey(last_key, op.window);
    for (int h = 0; h < op.heads; ++h) {
      const int kv_head = h / (op.heads / op.kv_heads);
      const auto key_at = [&](int64_t position) {
        const int32_t page = PageOf(batch, batch.sequence[r], position, page_tokens);
        return cache.Key(op.layer, page, kv_head, position % page_tokens);
      };
      const auto value_at = [&](int64_t position) {
        const int32_t page = PageOf(batch, batch.sequence[r], position, page_tokens);
        return cache.Value(op.layer, page, kv_head, position % page_tokens);
      };
      const int64_t head = (r * op.heads + h) * op.head_dim;
      AttendRow(op.q + head, op.head_dim, scale, first_key, last_key, key_at, value_at,
                op.out + head);
    }
  }
}

}  // namespace isobit::reference
