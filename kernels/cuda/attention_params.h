#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PARAMS_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PARAMS_H_

// What the attention kernels are told, and how rows, keys and work are counted. For host and
// device.
//
// Packed rows. Query heads that share a key head meet the same keys, so the rows of a sequence are
// packed for each key head: packed row f is query head f % group of the group, of the sequence's
// token f / group in this batch. Tiles are runs of packed rows.

#include <vector_types.h>

#include <cstdint>

#include "kernels/cuda/divisor.h"
#include "kernels/cuda/kv_layout.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit::cuda {

// Packed rows in a tile of the split kernel.
inline constexpr int kSplitTileRows = 16;

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

  // The keys that packed row `packed + i` sees; group: query heads that share a key head.
  ISOBIT_HOST_DEVICE KeyRange KeysOf(int i, const Divisor& group, int window) const {
    const int last = position + group.Divide(packed + i);
    return {static_cast<int>(FirstVisibleKey(last, window)), last};
  }
  // The keys that some row sees: rows see later keys the later they are.
  ISOBIT_HOST_DEVICE KeyRange KeysOfAny(const Divisor& group, int window) const {
    return {KeysOf(0, group, window).first, KeysOf(rows - 1, group, window).last};
  }
  // The keys that every row sees.
  ISOBIT_HOST_DEVICE KeyRange KeysOfAll(const Divisor& group, int window) const {
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

// Floats of the result of one split that still has to be merged: o [rows][head_dim], l [rows],
// bucket [rows], and what keeps the next one aligned to 16 bytes.
ISOBIT_HOST_DEVICE constexpr int64_t SplitPartialFloats(int rows, int head_dim) {
  return (int64_t{rows} * (head_dim + 2) + 3) / 4 * 4;
}

// What a lane has of a row of a split's result, on its way to the same lane of another CTA
// (attention_split_mail.cuh). A word that has not been written is kNoMailBits.
struct alignas(32) SplitMail {
  float4 o;     // of four columns
  float2 sums;  // l and bucket
};
inline constexpr uint32_t kNoMailBits = 0xffffffffu;
// Of one split: [pair of n8 tiles][packed row][lane of a quad].
ISOBIT_HOST_DEVICE constexpr int SplitMails(int head_dim) {
  return head_dim / 16 * kSplitTileRows * 4;
}

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
  int32_t prefill_tiles;       // the longest first
  int32_t prefill_cut_tiles;   // the first of them, which are cut in two (PrefillWorks)
  int32_t prefill_long_tiles;  // those that are taken before second parts
  int64_t prefill_keys;        // of all sequences that are prefilled, for each key head
};

struct AttentionParams {
  const Bf16* q;
  Bf16* out;
  const uint8_t* cache_layer;
  KvLayout layout;
  const int32_t* page_table;
  int64_t page_table_stride;
  int heads;
  Divisor group;  // query heads that share a key head
  Divisor page_tokens;
  int window;
  AttentionScale scale;
  bool read_once;   // each key is read by one CTA: it need not stay in L2
  int copy_tokens;  // that one copy brings: a power of two of at least 16 that divides a page

  int share;          // CTAs of a cluster that share a unit, each with a run of its split's keys
  bool single_round;  // no CTA of the split kernel has more than one unit

  // The plan, for each key head.
  const PlanCounts* counts;
  const SplitUnit* split_units;  // has room for one a CTA of the split kernel at least
  const AttentionTile* prefill_tiles;

  AttentionCounters* counters;
  RedoUnit* redo;
  float* partial;  // [unit][kv head][SplitPartialFloats(partial_rows, head_dim)]
  int partial_rows;
  unsigned* splits_done;  // [tile_slot][kv head], 0 when a launch has ended
  SplitMail* mail;        // [unit][kv head][SplitMails]; all kNoMailBits when a launch has ended
  float* prefill_merged;  // scratch of the prefill kernel for wide heads
  float* prefill_handed;  // what it leaves of works that are cut: [cut_index][PrefillHandedFloats]
  unsigned* prefill_handed_flags;  // [cut_index][warp]: all 0 when a launch has ended

  ISOBIT_HOST_DEVICE int kv_heads() const { return layout.kv_heads; }
  // Offset, in q and out, of packed row f of a tile's sequence.
  ISOBIT_HOST_DEVICE int64_t QueryOffset(const AttentionTile& tile, int f, int kv_head) const {
    const int token = group.Divide(f);
    const int head = (kv_head - token) * group.value() + f;  // f - token * group: in its group
    return (int64_t{tile.first_row + token} * heads + head) * layout.head_dim;
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PARAMS_H_
