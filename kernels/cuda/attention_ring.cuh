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

// Loads tiles of keys or values of one sequence and key head: one warp, all its lanes.
template <int kHeadDim, int kTileKeys>
class TileLoader {
 public:
  static constexpr int kGroups = kTileKeys / kKvGroupTokens;
  static constexpr int kTileBytes = 2 * kTileKeys * kHeadDim;
  static_assert(kGroups <= 32);

  // keys: what has to be loaded, of the whole unit of work.
  __device__ TileLoader(const AttentionParams& p, int sequence, int kv_head, KeyRange keys)
      : p_(p),
        keys_(keys),
        head_offset_(p.layout.KeysOffset(0, kv_head)),
        table_(p.page_table + sequence * p.page_table_stride) {}

  // Which pages the tile at key `begin` lies in; lane g looks after group g. To be called a tile
  // ahead, as the page table is in global memory.
  __device__ int PagesOf(int begin) const {
    const int key = begin + Lane() * kKvGroupTokens;
    return Lane() < kGroups && key <= keys_.last && key + kKvGroupTokens > keys_.first
               ? table_[key / p_.layout.page_tokens]
               : kNoPage;
  }

  // Announces the bytes of the tile at `begin` to `barrier` and starts their copies to `to`. Groups
  // without a key that matters are left out. Tile layout: kv_layout.h.
  __device__ void Load(int begin, int pages, bool values, uint32_t to, uint32_t barrier) const {
    constexpr int kBoxes = KvBoxes(kHeadDim);
    const int groups = __popc(__ballot_sync(0xffffffffu, pages != kNoPage));
    if (Lane() == 0) {
      sm90::ArriveExpectBytes(barrier, groups * kKvGroupTokens * kHeadDim * 2);
    }
    __syncwarp();
    const int64_t tile_offset = head_offset_ + (values ? p_.layout.TileBytes() : 0);
#pragma unroll
    for (int first = 0; first < kGroups * kBoxes; first += 32) {
      const int item = first + Lane();
      const int group = item / kBoxes % kGroups;
      const int box = item % kBoxes;
      const int page = __shfl_sync(0xffffffffu, pages, group);
      if (item >= kGroups * kBoxes || page == kNoPage) continue;
      const int key = begin + group * kKvGroupTokens;
      const int row_bytes = KvBoxRowBytes(kHeadDim, box);
      const uint8_t* from = p_.cache_layer + tile_offset + page * p_.layout.PageBytes() +
                            KvBoxOffset(p_.layout.page_tokens, box) +
                            key % p_.layout.page_tokens * row_bytes;
      sm90::BulkLoad(to + KvBoxOffset(kTileKeys, box) + group * kKvGroupTokens * row_bytes, from,
                     kKvGroupTokens * row_bytes, barrier,
                     p_.read_once ? sm90::CacheHint::kEvictFirst : sm90::CacheHint::kEvictNormal);
    }
  }

 private:
  static constexpr int kNoPage = -1;
  static __device__ int Lane() { return static_cast<int>(threadIdx.x) % 32; }

  const AttentionParams& p_;
  const KeyRange keys_;
  const int64_t head_offset_;
  const int32_t* const table_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_RING_CUH_
