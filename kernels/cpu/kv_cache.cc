#include "kernels/cpu/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/host.h"
#include "kernels/shapes.h"

namespace isobit {

absl::StatusOr<std::unique_ptr<CpuKvCache>> CpuKvCache::Create(const KvCacheShape& shape) {
  const absl::StatusOr<int64_t> bytes = CheckKvCacheShape(shape);
  if (!bytes.ok()) return bytes.status();
  if (shape.head_dim % kKeyGroup != 0) {
    return absl::InvalidArgumentError(absl::StrCat("head_dim of a KV cache must be a multiple of ",
                                                   kKeyGroup, ", got ", shape.head_dim));
  }
  absl::StatusOr<std::unique_ptr<Buffer>> memory = AllocateHostBuffer(static_cast<size_t>(*bytes));
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<CpuKvCache>(new CpuKvCache(shape, *std::move(memory)));
}

void CpuKvCache::WriteKey(int layer, int32_t page, int kv_head, int slot, const Bf16* key) {
  assert(slot >= 0 && slot < shape().page_tokens);
  const int head_dim = shape().head_dim;
  Bf16* group = Head(layer, page, kv_head) + int64_t{slot / kKeyGroup} * kKeyGroup * head_dim;
  for (int d = 0; d < head_dim; ++d) group[KeyOffset(slot % kKeyGroup, d)] = key[d];
}

void CpuKvCache::WriteValue(int layer, int32_t page, int kv_head, int slot, const Bf16* value) {
  assert(slot >= 0 && slot < shape().page_tokens);
  const int head_dim = shape().head_dim;
  Bf16* row = Head(layer, page, kv_head) + (int64_t{shape().page_tokens} + slot) * head_dim;
  std::memcpy(row, value, static_cast<size_t>(head_dim) * sizeof(Bf16));
}

void CpuKvCache::Fill(std::span<const int32_t> pages, Bf16 value) {
  for (const int32_t page : pages) {
    Bf16* begin = Head(0, page, 0);
    std::fill(begin, begin + PageElements(), value);
  }
}

}  // namespace isobit
