#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_RING_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_RING_CUH_

// Keys and values on their way from pages to shared memory.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/bulk_copy.h"

namespace isobit::cuda {

// A place in a ring of slots: the slot, and the parity of the phase that fills it this time around.
template <int kSlots>
struct SlotCursor {
  int slot = 0;
  uint32_t parity = 0;

  // The place `count` slots further on; count <= kSlots.
  __device__ SlotCursor After(int count) const {
    const bool wraps = slot + count >= kSlots;
    return {wraps ? slot + count - kSlots : slot + count, wraps ? parity ^ 1 : parity};
  }
  // The place one slot back.
  __device__ SlotCursor Before() const {
    return slot == 0 ? SlotCursor{kSlots - 1, parity ^ 1} : SlotCursor{slot - 1, parity};
  }
  __device__ void Advance() { *this = After(1); }
};

// Streams the keys or the values of one sequence and key head: one warp, all its lanes. Addresses
// of kTileKeys keys are looked up at a time; lane g looks after the g-th group of 16.
template <int kHeadDim, int kTileKeys>
class TileLoader {
 public:
  static constexpr int kGroups = kTileKeys / kKvGroupTokens;
  static_assert(kGroups <= 32);

  // keys: what has to be loaded, of the whole unit of work.
  __device__ TileLoader(const AttentionParams& p, int sequence, int kv_head, KeyRange keys,
                        bool values)
      : p_(p),
        keys_(keys),
        head_(p.cache_layer + p.layout.KeysOffset(0, kv_head) +
              (values ? p.layout.TileBytes() : 0)),
        table_(p.page_table + sequence * p.page_table_stride),
        copy_groups_(min(p.copy_tokens, kTileKeys) / kKvGroupTokens) {}

  // Looks the tile at key `begin` up in the page table, which is in global memory: to be called a
  // tile ahead.
  __device__ void Find(int begin) {
    // A copy is made if any of its groups matters; then the place of its first counts.
    const int key = begin + Lane() * kKvGroupTokens;
    const int copy = begin + (Lane() & -copy_groups_) * kKvGroupTokens;
    page_ = kNoPage;
    if (Lane() >= kGroups || !keys_.Meets(copy, copy + copy_groups_ * kKvGroupTokens)) return;
    const int entry = p_.page_tokens.Divide(key);
    page_ = __ldcg(table_ + entry);
    slot_ = key - entry * p_.page_tokens.value();
  }

  // Takes what Find found for Start, so that Find can go on to the next tile.
  __device__ void Take() {
    const uint8_t* own =
        page_ == kNoPage ? nullptr : head_ + page_ * p_.layout.PageBytes() + slot_ * (2 * kHeadDim);
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      from_[g] = reinterpret_cast<const uint8_t*>(
          __shfl_sync(0xffffffffu, reinterpret_cast<unsigned long long>(own), g));
    }
  }

  // Announces the bytes of kCount groups of the tile, from kFirst on, to `barrier` and starts their
  // copies to `to`. Copies without a key that matters are left out.
  template <int kFirst, int kCount>
  __device__ void Start(uint32_t to, uint32_t barrier) const {
    // By an elected lane, not by as many lanes as there are copies: the copy engine is told by
    // uniform registers, which the lanes would have to fill one after the other.
    if (sm90::ElectOne()) {
      const int copy_groups = min(copy_groups_, kCount);
      const uint32_t copy_bytes = copy_groups * kGroupBytes;
      uint32_t bytes = 0;
#pragma unroll
      for (int g = 0; g < kCount; ++g) {
        if (Copies(kFirst + g, copy_groups)) bytes += copy_bytes;
      }
      sm90::ArriveExpectBytes(barrier, bytes);
      const auto hint = p_.read_once ? sm90::CacheHint::kEvictFirst : sm90::CacheHint::kEvictNormal;
#pragma unroll
      for (int g = 0; g < kCount; ++g) {
        if (!Copies(kFirst + g, copy_groups)) continue;
        sm90::BulkLoad(to + g * kGroupBytes, from_[kFirst + g], copy_bytes, barrier, hint);
      }
    }
    __syncwarp();
  }

  // As Start for the whole tile, but each 8 tokens go `atoms_bytes` after the 8 before.
  __device__ void StartApart(uint32_t to, uint32_t atoms_bytes, uint32_t barrier) const {
    constexpr uint32_t kHalf = kGroupBytes / 2;
    if (sm90::ElectOne()) {
      uint32_t bytes = 0;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        if (from_[g] != nullptr) bytes += kGroupBytes;
      }
      sm90::ArriveExpectBytes(barrier, bytes);
      const auto hint = p_.read_once ? sm90::CacheHint::kEvictFirst : sm90::CacheHint::kEvictNormal;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        if (from_[g] == nullptr) continue;
        const uint32_t group = to + 2 * g * atoms_bytes;
        sm90::BulkLoad(group, from_[g], kHalf, barrier, hint);
        sm90::BulkLoad(group + atoms_bytes, from_[g] + kHalf, kHalf, barrier, hint);
      }
    }
    __syncwarp();
  }

 private:
  static constexpr int kNoPage = -1;
  static constexpr uint32_t kGroupBytes = 2 * kKvGroupTokens * kHeadDim;
  static __device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }

  // A copy begins at this group.
  __device__ bool Copies(int group, int copy_groups) const {
    return (group & (copy_groups - 1)) == 0 && from_[group] != nullptr;
  }

  const AttentionParams& p_;
  const KeyRange keys_;
  const uint8_t* const head_;
  const int32_t* const table_;
  const int copy_groups_;  // groups of 16 tokens that one copy brings, a power of two

  int page_ = kNoPage, slot_ = 0;  // of this lane's group in the tile that was found
  const uint8_t* from_[kGroups];   // of the tile that was taken
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_RING_CUH_
