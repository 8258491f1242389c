#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_WORK_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_WORK_H_

// What the CTAs of the prefill kernel take, one work after the other. For host and device.
//
// A work is a tile of rows and a key head. With few long works a CTA, the last ones would keep some
// CTAs busy while the others have nothing left. So some are cut in two: one CTA goes through the
// first keys and leaves its sums and its output so far in memory, another one takes them up and
// goes on. First parts lie at the head of the list and are of all lengths, so that CTAs are out of
// step from then on, by up to a work; second parts lie at its end, the longest first, and bring
// them to an end together. Nobody waits long for a first part, and nobody for ever: it was taken
// before, by a CTA that waits for nothing.

#include <cstdint>

#include "kernels/cuda/attention_params.h"

namespace isobit::cuda {

// Keys that the prefill kernel takes at a time.
inline constexpr int kPrefillTileKeys = 64;

enum class PrefillPart : int32_t { kWhole, kFirst, kSecond };

struct PrefillWork {
  AttentionTile tile;  // no rows: there is no more work
  int32_t kv_head;
  PrefillPart part;
  int32_t cut;        // of parts: the first key of the second one
  int32_t cut_index;  // of parts: numbers those that are cut

  // Those of the part that some row sees.
  ISOBIT_HOST_DEVICE KeyRange Keys(const Divisor& group, int window) const {
    KeyRange keys = tile.KeysOfAny(group, window);
    if (part == PrefillPart::kFirst) keys.last = cut - 1;
    if (part == PrefillPart::kSecond) keys.first = cut;
    return keys;
  }
};

// How many of the longest tiles are cut, if any are, for each key head: about a part for each CTA.
ISOBIT_HOST_DEVICE constexpr int PrefillCutTiles(int ctas, int kv_heads) {
  return (ctas + kv_heads - 1) / kv_heads;
}

// Cuts the keys of the work `index` of `count`, each a little later than the one before. Never
// where a split ends: so there is always the output of a split to go on with. REQUIRES: more than a
// split of keys.
ISOBIT_HOST_DEVICE constexpr int PrefillCut(KeyRange keys, int index, int count) {
  const int first = keys.first / kPrefillTileKeys;
  const int tiles = keys.last / kPrefillTileKeys - first + 1;
  int before = static_cast<int>((int64_t{tiles} * (index + 1) + count / 2) / (count + 1));
  if (before < 1) before = 1;
  if (before > tiles - 1) before = tiles - 1;
  if ((first + before) * kPrefillTileKeys % kSplitKeys == 0) before += before > 1 ? -1 : 1;
  return (first + before) * kPrefillTileKeys;
}

// The list: first parts; then whole works, some heads with all their tiles, the longest first, then
// the next heads; then second parts; then tiles too short to be worth a cut. If nothing is cut, all
// are whole works.
class PrefillWorks {
 public:
  // heads_at_once: how many key heads' whole works are taken before those of the next ones.
  ISOBIT_HOST_DEVICE PrefillWorks(const PlanCounts& counts, const AttentionTile* tiles,
                                  int kv_heads, int heads_at_once, const Divisor& group, int window)
      : tiles_(tiles),
        kv_heads_(kv_heads),
        heads_at_once_(heads_at_once),
        window_(window),
        group_(group),
        parts_(counts.prefill_cut_tiles * kv_heads),
        first_whole_(counts.prefill_cut_tiles),
        first_short_(counts.prefill_long_tiles),
        end_(counts.prefill_tiles) {}

  // A work without rows behind the last one.
  ISOBIT_HOST_DEVICE PrefillWork At(int index) const {
    if (index < parts_) return Part(index, PrefillPart::kFirst);
    index -= parts_;
    const int wholes = first_short_ - first_whole_;
    if (index < wholes * kv_heads_) return Whole(index, wholes);
    index -= wholes * kv_heads_;
    if (index < parts_) return Part(index, PrefillPart::kSecond);
    index -= parts_;
    const int tile = index / kv_heads_;
    if (tile >= end_ - first_short_) return {};
    return {tiles_[first_short_ + tile], index - tile * kv_heads_, PrefillPart::kWhole, 0, 0};
  }

 private:
  ISOBIT_HOST_DEVICE PrefillWork Part(int index, PrefillPart part) const {
    const int tile = index / kv_heads_;
    PrefillWork work = {tiles_[tile], index - tile * kv_heads_, part, 0, index};
    work.cut = PrefillCut(work.tile.KeysOfAny(group_, window_), index, parts_);
    return work;
  }
  ISOBIT_HOST_DEVICE PrefillWork Whole(int index, int wholes) const {
    const int round = index / (wholes * heads_at_once_);
    const int first_head = round * heads_at_once_;
    const int left = kv_heads_ - first_head;
    const int heads = left < heads_at_once_ ? left : heads_at_once_;
    const int in_round = index - round * wholes * heads_at_once_;
    const int tile = in_round / heads;
    return {tiles_[first_whole_ + tile], first_head + in_round - tile * heads, PrefillPart::kWhole,
            0, 0};
  }

  const AttentionTile* const tiles_;
  const int kv_heads_, heads_at_once_, window_;
  const Divisor group_;
  const int parts_;  // first ones, and as many second ones
  const int first_whole_, first_short_, end_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_WORK_H_
