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
  __device__ void Advance() { *this = After(1); }
};

// Loads tiles of keys or values of one sequence and key head: one warp, all its lanes. kTileKeys:
// that addresses are looked up for at a time; lane g looks after the g-th group of 16.
template <int kHeadDim, int kTileKeys>
class TileLoader {
 public:
  static constexpr int kGroups = kTileKeys / kKvGroupTokens;
  static_assert(kGroups <= 32);

  // Where a lane's group is.
  struct Place {
    int page;
    int slot;  // in the page
  };

  // keys: what has to be loaded, of the whole unit of work.
  __device__ TileLoader(const AttentionParams& p, int sequence, int kv_head, KeyRange keys)
      : p_(p),
        keys_(keys),
        head_(p.cache_layer + p.layout.KeysOffset(0, kv_head)),
        table_(p.page_table + sequence * p.page_table_stride),
        copy_groups_(min(p.copy_tokens, kTileKeys) / kKvGroupTokens) {}

  // Of the tile at key `begin`. To be called a tile ahead, as the page table is in global memory.
  __device__ Place Find(int begin) const {
    // A copy is made if any of its groups matters; then the place of its first counts.
    const int key = begin + Lane() * kKvGroupTokens;
    const int copy = begin + Lane() / copy_groups_ * copy_groups_ * kKvGroupTokens;
    if (Lane() >= kGroups || !keys_.Meets(copy, copy + copy_groups_ * kKvGroupTokens)) {
      return {kNoPage, 0};
    }
    const int entry = key / p_.layout.page_tokens;
    return {table_[entry], key - entry * p_.layout.page_tokens};
  }

  // Announces the bytes of kCount groups of the tile, from `first_group` on, to `barrier` and
  // starts their copies to `to`. Copies without a key that matters are left out.
  template <int kCount>
  __device__ void Load(const Place& place, int first_group, bool values, uint32_t to,
                       uint32_t barrier) const {
    const uint8_t* own = head_ + (values ? p_.layout.TileBytes() : 0) +
                         place.page * p_.layout.PageBytes() + place.slot * (2 * kHeadDim);
    if (place.page == kNoPage) own = nullptr;
    const int copy_groups = min(copy_groups_, kCount);
    const uint8_t* from[kCount];
    uint32_t bytes = 0;
#pragma unroll
    for (int g = 0; g < kCount; ++g) {
      from[g] = reinterpret_cast<const uint8_t*>(
          __shfl_sync(0xffffffffu, reinterpret_cast<unsigned long long>(own), first_group + g));
      if ((g & (copy_groups - 1)) != 0) from[g] = nullptr;
      if (from[g] != nullptr) bytes += copy_groups * kGroupBytes;
    }
    const auto hint = p_.read_once ? sm90::CacheHint::kEvictFirst : sm90::CacheHint::kEvictNormal;
    // By an elected lane, not by as many lanes as there are copies: the copy engine is told by
    // uniform registers, which the lanes would have to fill one after the other.
    if (sm90::ElectOne()) {
      sm90::ArriveExpectBytes(barrier, bytes);
#pragma unroll
      for (int g = 0; g < kCount; ++g) {
        if (from[g] == nullptr) continue;
        sm90::BulkLoad(to + g * kGroupBytes, from[g], copy_groups * kGroupBytes, barrier, hint);
      }
    }
    __syncwarp();
  }

 private:
  static constexpr int kNoPage = -1;
  static constexpr uint32_t kGroupBytes = 2 * kKvGroupTokens * kHeadDim;
  static __device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }

  const AttentionParams& p_;
  const KeyRange keys_;
  const uint8_t* const head_;
  const int32_t* const table_;
  const int copy_groups_;  // groups of 16 tokens that one copy brings
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_RING_CUH_
