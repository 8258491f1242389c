#ifndef ISOBIT_KERNELS_CPU_KV_CACHE_H_
#define ISOBIT_KERNELS_CPU_KV_CACHE_H_

// Keys and values of the CPU backend, laid out for the inner loop of attention.

#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/numerics/bf16.h"
#include "kernels/ops.h"

namespace isobit {

// A page holds all layers: [page][layer][kv_head]{keys, values}, so that memory is touched page by
// page as tokens come, and a pool that is never used costs address space only.
//
//  - keys:   [page_tokens / 16][head_dim / 2][16 keys][2], two neighbouring dimensions of 16 keys
//            side by side: a vector of 16-bit lanes splits into the even and the odd dimension with
//            one shift and one mask, and the lanes of each are the keys.
//  - values: [page_tokens][head_dim], so that the lanes are the dimensions.
//
// Thread safety: writes of different tokens or heads may run at once.
class CpuKvCache final : public KvCache {
 public:
  // Keys are stored in groups of this many, the step of dot16.
  static constexpr int kKeyGroup = 16;

  // InvalidArgument if the shape is not valid or head_dim is not a multiple of 16,
  // ResourceExhausted if the memory is not there.
  static absl::StatusOr<std::unique_ptr<CpuKvCache>> Create(const KvCacheShape& shape);

  // slot: the token's place in its page. head_dim elements each.
  void WriteKey(int layer, int32_t page, int kv_head, int slot, const Bf16* key);
  void WriteValue(int layer, int32_t page, int kv_head, int slot, const Bf16* value);

  // Whole pages of keys and values, all layers.
  void Fill(std::span<const int32_t> pages, Bf16 value);

  // The 16 keys of slots [16 * group, 16 * group + 16): [head_dim / 2][16][2].
  const Bf16* KeyGroup(int layer, int32_t page, int kv_head, int group) const {
    return Head(layer, page, kv_head) + int64_t{group} * kKeyGroup * shape().head_dim;
  }
  // [page_tokens][head_dim].
  const Bf16* Values(int layer, int32_t page, int kv_head) const {
    return Head(layer, page, kv_head) + int64_t{shape().page_tokens} * shape().head_dim;
  }
  // Where dimension d of a key stands in its group.
  static int64_t KeyOffset(int key, int d) {
    return (int64_t{d / 2} * kKeyGroup + key) * 2 + d % 2;
  }
  // One element of a stored key.
  Bf16 KeyAt(int layer, int32_t page, int kv_head, int slot, int d) const {
    return KeyGroup(layer, page, kv_head, slot / kKeyGroup)[KeyOffset(slot % kKeyGroup, d)];
  }

 private:
  CpuKvCache(const KvCacheShape& shape, std::unique_ptr<Buffer> memory)
      : KvCache(shape), memory_(std::move(memory)) {}

  int64_t PageElements() const { return shape().BytesPerPage() / int64_t{sizeof(Bf16)}; }
  // Keys of a head in a page; its values follow.
  Bf16* Head(int layer, int32_t page, int kv_head) const {
    const KvCacheShape& s = shape();
    assert(layer >= 0 && layer < s.layers && page >= 0 && page < s.pages);
    assert(kv_head >= 0 && kv_head < s.kv_heads);
    const int64_t head_elements = int64_t{2} * s.page_tokens * s.head_dim;
    return memory_->As<Bf16>() + int64_t{page} * PageElements() +
           (int64_t{layer} * s.kv_heads + kv_head) * head_elements;
  }

  std::unique_ptr<Buffer> memory_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_KV_CACHE_H_
