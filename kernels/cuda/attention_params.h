#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PARAMS_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PARAMS_H_

// What the attention kernels are told, and how rows, keys and work are counted. For host and
// device.
//
// Packed rows. Query heads that share a key head meet the same keys, so the rows of a sequence are
// packed for each key head: packed row f is query head f % group of the group, of the sequence's
// token f / group in this batch. Tiles are runs of packed rows.

#include <cstdint>

#include "kernels/cuda/kv_layout.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit::cuda {

// Packed rows in a tile of either kernel.
inline constexpr int kSplitTileRows = 16;
inline constexpr int kPrefillTileRows = 128;

// Keys at positions [first, last]; empty if first > last.
struct KeyRange {
  int first;
  int last;

  ISOBIT_HOST_DEVICE constexpr bool IsEmpty() const { return first > last; }
  ISOBIT_HOST_DEVICE constexpr bool Meets(int begin, int end) const {
    return first < end && begin <= last;
  }
  ISOBIT_HOST_DEVICE constexpr KeyRange Within(int begin, int end) const {
    return {first > begin ? first : begin, last < end ? last : end - 1};
  }
  ISOBIT_HOST_DEVICE constexpr KeyRange InSplit(int split) const {
    return Within(split * kSplitKeys, (split + 1) * kSplitKeys);
  }
};

// A run of packed rows of one sequence.
struct AttentionTile {
  int32_t sequence;
  int32_t first_row;  // of the sequence, in the batch
  int32_t position;   // of that row
  int32_t packed;     // the tile's first packed row
  int32_t rows;       // its packed rows

  // The keys that packed row `packed + i` sees.
  ISOBIT_HOST_DEVICE constexpr KeyRange KeysOf(int i, int group, int window) const {
    const int last = position + (packed + i) / group;
    return {static_cast<int>(FirstVisibleKey(last, window)), last};
  }
  // The keys that some row sees: rows see later keys the later they are.
  ISOBIT_HOST_DEVICE constexpr KeyRange KeysOfAny(int group, int window) const {
    return {KeysOf(0, group, window).first, KeysOf(rows - 1, group, window).last};
  }
  // The keys that every row sees.
  ISOBIT_HOST_DEVICE constexpr KeyRange KeysOfAll(int group, int window) const {
    return {KeysOf(rows - 1, group, window).first, KeysOf(0, group, window).last};
  }
};

// Work of the split kernel: a tile with one of its splits, or with all of them in turn.
struct SplitUnit {
  AttentionTile tile;
  int32_t split;      // kAllSplits: all
  int32_t splits;     // that the tile has
  int32_t tile_slot;  // numbers tiles within the plan
};
static_assert(sizeof(SplitUnit) == 32);
inline constexpr int32_t kAllSplits = -1;

// A tile that the prefill kernel gave up, for all its splits.
struct RedoUnit {
  AttentionTile tile;
  int32_t kv_head;
};

// Counted on the device. Those of the second group are back at 0 when a launch has ended.
struct AttentionCounters {
  unsigned long long tiles;  // as BackendCounters
  unsigned long long tiles_exact;

  unsigned split_tickets, split_ctas_done;
  unsigned prefill_tickets, prefill_ctas_done;
  unsigned redo_units;
};

// What the plan kernel found in a batch. Arrays in device memory.
struct PlanCounts {
  int32_t split_units;
  int32_t prefill_tiles;
};

struct AttentionParams {
  const Bf16* q;
  Bf16* out;
  const uint8_t* cache_layer;
  KvLayout layout;
  const int32_t* page_table;
  int64_t page_table_stride;
  int heads;
  int group;  // query heads that share a key head
  int window;
  AttentionScale scale;
  bool read_once;   // each key is read by one CTA: it need not stay in L2
  int copy_tokens;  // that one copy brings: a power of two of at least 16 that divides a page

  // The plan, for each key head.
  const PlanCounts* counts;
  const SplitUnit* split_units;
  const AttentionTile* prefill_tiles;

  AttentionCounters* counters;
  RedoUnit* redo;
  // Results of splits that still have to be merged, for [unit][kv head]: o
  // [partial_rows][head_dim], l [partial_rows], bucket [partial_rows].
  float* partial;
  int partial_rows;
  unsigned* splits_done;  // [tile_slot][kv head], 0 when a launch has ended
  float* prefill_merged;  // scratch of the prefill kernel for wide heads

  ISOBIT_HOST_DEVICE int kv_heads() const { return layout.kv_heads; }
  // Offset, in q and out, of packed row f of a tile's sequence.
  ISOBIT_HOST_DEVICE int64_t QueryOffset(const AttentionTile& tile, int f, int kv_head) const {
    const int64_t row = tile.first_row + f / group;
    return (row * heads + kv_head * group + f % group) * layout.head_dim;
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PARAMS_H_
