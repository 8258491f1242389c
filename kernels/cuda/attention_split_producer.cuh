#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_

// The split kernel's shapes, its shared memory, and the warps that feed it. attention_split.cuh
// says what the kernel is.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/sm90/atomic.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

template <int kHeadDimValue>
struct SplitConfig {
  static constexpr int kHeadDim = kHeadDimValue;
  static constexpr bool kCapsScores = false;
  static constexpr int kWarps = 8;  // that compute
  static constexpr int kConsumers = 32 * kWarps;
  static constexpr int kKeysWarp = kWarps;
  static constexpr int kValuesWarp = kWarps + 1;
  static constexpr int kStoredWarp = kWarps + 2;
  static constexpr int kThreads = kConsumers + 96;
  static constexpr int kChunkKeys = kBlockKeys;
  static constexpr int kStepKeys = 16 * kWarps;
  static constexpr int kChunksPerStep = kStepKeys / kChunkKeys;
  static constexpr int kSlotBytes = 2 * kChunkKeys * kHeadDim;
  // Of the ring of keys, and of the ring of values.
  static constexpr int kRingBytes = 96 << 10;
  static constexpr int kSlots = kRingBytes / kSlotBytes < 12 ? kRingBytes / kSlotBytes : 12;
  static constexpr int kRingsBytes = 2 * kSlots * kSlotBytes;
  // A pair of n8 tiles: 16 columns of the output.
  static constexpr int kPairs = kHeadDim / 16;
  static constexpr int kOwnPairs = (kPairs + kWarps - 1) / kWarps;
  // Queries of wide heads do not fit into registers.
  static constexpr bool kQueriesInShared = kHeadDim > 128;
  using Cursor = SlotCursor<kSlots>;
  // Of each warp, one lane gives a slot back, after __syncwarp. compute-sanitizer's racecheck does
  // not see that this covers the reads of the other lanes, so a build for it lets all of them.
#ifdef ISOBIT_RACECHECK
  static constexpr int kReleasingLanes = 32;
#else
  static constexpr int kReleasingLanes = 1;
#endif
};

// What the keys' warp tells the others of a unit. No rows: there is no more work.
struct SplitWork {
  AttentionTile tile;
  int kv_head;
  int first_split, end_split;  // of this unit
  int tile_first_split;
  int splits;      // to be merged; 1 if this unit finishes the tile
  int first_unit;  // in the plan, of the tile's splits
  int tile_slot;
};

// Shared memory behind the rings. Rows are padded so that eight of them lie in different banks.
template <class Config>
struct SplitShared {
  static constexpr int kProbabilityStride = Config::kStepKeys + 8;
  static constexpr int kScoreStride = Config::kStepKeys + 4;
  static constexpr int kQueryStride = Config::kQueriesInShared ? Config::kHeadDim + 8 : 8;
  // Units that are worked on, that are fetched ahead, and whose tile may have to be merged.
  static constexpr int kWorkSlots = 3;

  alignas(16) Bf16 probability[2][kSplitTileRows][kProbabilityStride];
  alignas(16) Bf16 query[Config::kQueriesInShared ? kSplitTileRows : 1][kQueryStride];
  float score[kSplitTileRows][kScoreStride];
  SplitWork work[kWorkSlots];
  alignas(8) uint64_t work_full[kWorkSlots];
  uint64_t work_empty[kWorkSlots];
  uint64_t stored[kWorkSlots];  // the result of a unit is in global memory
  uint64_t told[kWorkSlots];    // `merges` holds
  uint64_t keys_full[Config::kSlots], keys_empty[Config::kSlots];
  uint64_t values_full[Config::kSlots], values_empty[Config::kSlots];
  bool merges[kWorkSlots];  // the unit was its tile's last
};

template <class Config>
constexpr int SplitSharedBytes() {
  return Config::kRingsBytes + static_cast<int>(sizeof(SplitShared<Config>));
}

// Addresses, in the shared window, of one of the rings.
template <class Config>
struct SplitRing {
  uint32_t slots, full, empty;

  __device__ uint32_t Slot(int slot) const { return slots + slot * Config::kSlotBytes; }
  __device__ uint32_t Full(int slot) const { return full + 8 * slot; }
  __device__ uint32_t Empty(int slot) const { return empty + 8 * slot; }
};

// Addresses of the above.
template <class Config>
struct SplitAddresses {
  SplitRing<Config> keys, values;
  uint32_t work_full, work_empty, stored, told, probability, query;

  __device__ SplitAddresses(uint32_t base) {
    using Shared = SplitShared<Config>;
    const uint32_t rest = base + Config::kRingsBytes;
    keys = {base, rest + static_cast<uint32_t>(offsetof(Shared, keys_full)),
            rest + static_cast<uint32_t>(offsetof(Shared, keys_empty))};
    values = {base + Config::kSlots * Config::kSlotBytes,
              rest + static_cast<uint32_t>(offsetof(Shared, values_full)),
              rest + static_cast<uint32_t>(offsetof(Shared, values_empty))};
    work_full = rest + offsetof(Shared, work_full);
    work_empty = rest + offsetof(Shared, work_empty);
    stored = rest + offsetof(Shared, stored);
    told = rest + offsetof(Shared, told);
    probability = rest + offsetof(Shared, probability);
    query = rest + offsetof(Shared, query);
  }
};

// The steps of a split, for producers and consumers alike: all walk them in this order, and of each
// step the chunks with visible keys.
template <class Config>
struct StepWalk {
  KeyRange keys;  // of the split, that some row sees

  __device__ int Begin() const { return keys.first / Config::kStepKeys * Config::kStepKeys; }
  __device__ bool Has(int step) const { return step <= keys.last; }
  __device__ bool HasChunk(int step, int chunk) const {
    const int begin = step + chunk * Config::kChunkKeys;
    return keys.Meets(begin, begin + Config::kChunkKeys);
  }
};

// ---- Producers

// Streams the keys or the values of units through a ring. One warp.
template <class Config>
class SplitStream {
 public:
  __device__ SplitStream(const AttentionParams& p, const SplitRing<Config>& ring, bool values)
      : p_(p), ring_(ring), values_(values) {}

  __device__ void Load(const SplitWork& work) {
    const KeyRange keys = work.tile.KeysOfAny(p_.group, p_.window);
    Loader loader(p_, work.tile.sequence, work.kv_head, keys, values_);
    loader.Find(StepWalk<Config>{keys.InSplit(work.first_split)}.Begin());
#pragma unroll 1
    for (int split = work.first_split; split < work.end_split; ++split) {
      const StepWalk<Config> walk = {keys.InSplit(split)};
#pragma unroll 1
      for (int step = walk.Begin(); walk.Has(step); step += Config::kStepKeys) {
        loader.Take();
        loader.Find(step + Config::kStepKeys);
        if (walk.HasChunk(step, 0)) Start<0>(loader);
        if (walk.HasChunk(step, 1)) Start<1>(loader);
      }
    }
  }

 private:
  using Loader = TileLoader<Config::kHeadDim, Config::kStepKeys>;
  static_assert(Config::kChunksPerStep == 2);

  template <int kChunk>
  __device__ void Start(const Loader& loader) {
    constexpr int kGroups = Config::kChunkKeys / kKvGroupTokens;
    sm90::Wait(ring_.Empty(cursor_.slot), cursor_.parity ^ 1);
    loader.template Start<kChunk * kGroups, kGroups>(ring_.Slot(cursor_.slot),
                                                     ring_.Full(cursor_.slot));
    cursor_.Advance();
  }

  const AttentionParams& p_;
  const SplitRing<Config>& ring_;
  const bool values_;
  typename Config::Cursor cursor_;
};

// The keys' warp: it takes units of work, and tells the others.
template <class Config>
class SplitKeysWarp {
 public:
  __device__ SplitKeysWarp(const AttentionParams& p, SplitShared<Config>& shared,
                           const SplitAddresses<Config>& at)
      : p_(p),
        shared_(shared),
        at_(at),
        lane_(static_cast<int>(threadIdx.x) % 32),
        first_unit_(p.split_units[blockIdx.x / static_cast<unsigned>(p.kv_heads())]) {
    split_works_ = p.counts->split_units * p.kv_heads();
    works_ = split_works_ + static_cast<int>(p.counters->redo_units);
  }

  __device__ void Run() {
    SplitStream<Config> stream(p_, at_.keys, /*values=*/false);
    // The first unit is the CTA's own, so that a short launch waits for no ticket; it is read
    // before it is known that there is one.
    int index = static_cast<int>(blockIdx.x);
    SplitUnit unit = first_unit_;
    while (index < works_) {
      const SplitWork work = index < split_works_ ? WorkOf(unit, index) : RedoAt(index);
      int ticket = 0;
      if (lane_ == 0) ticket = static_cast<int>(atomicAdd(&p_.counters->split_tickets, 1u));
      Publish(work);
      stream.Load(work);
      index = static_cast<int>(gridDim.x) + __shfl_sync(0xffffffffu, ticket, 0);
      if (index < split_works_) unit = p_.split_units[index / p_.kv_heads()];
    }
    Publish(SplitWork{});
    if (lane_ == 0) SignOff();
  }

 private:
  __device__ SplitWork RedoAt(int index) const {
    const RedoUnit& unit = p_.redo[index - split_works_];
    SplitWork work = {};
    work.tile = unit.tile;
    work.kv_head = unit.kv_head;
    SetSplits(kAllSplits, 1, work);
    return work;
  }

  __device__ SplitWork WorkOf(const SplitUnit& unit, int index) const {
    const int unit_index = index / p_.kv_heads();
    SplitWork work = {};
    work.tile = unit.tile;
    work.kv_head = index % p_.kv_heads();
    work.tile_slot = unit.tile_slot;
    SetSplits(unit.split, unit.splits, work);
    work.first_unit = unit_index - (work.first_split - work.tile_first_split);
    return work;
  }

  __device__ void SetSplits(int split, int splits, SplitWork& work) const {
    const KeyRange keys = work.tile.KeysOfAny(p_.group, p_.window);
    work.tile_first_split = keys.first / kSplitKeys;
    const bool all = split == kAllSplits;
    work.first_split = all ? work.tile_first_split : split;
    work.end_split = (all ? keys.last / kSplitKeys : split) + 1;
    work.splits = all ? 1 : splits;
  }

  // Hands a unit to the others, at most one ahead of what the consumers work on.
  __device__ void Publish(const SplitWork& work) {
    sm90::Wait(at_.work_empty + 8 * work_cursor_.slot, work_cursor_.parity ^ 1);
    if (lane_ == 0) {
      shared_.work[work_cursor_.slot] = work;
      sm90::Arrive(at_.work_full + 8 * work_cursor_.slot);
    }
    work_cursor_.Advance();
  }

  // The last CTA of the launch leaves the counters as it found them.
  __device__ void SignOff() const {
    AttentionCounters& counters = *p_.counters;
    const unsigned last = gridDim.x - 1;
    if (sm90::IncrementInOrder(&counters.split_ctas_done, last) != last) return;
    counters.split_tickets = 0;
    counters.redo_units = 0;
  }

  const AttentionParams& p_;
  SplitShared<Config>& shared_;
  const SplitAddresses<Config>& at_;
  const int lane_;
  const SplitUnit first_unit_;
  int split_works_, works_;
  SlotCursor<SplitShared<Config>::kWorkSlots> work_cursor_;
};

template <class Config>
__device__ void RunSplitValuesWarp(const AttentionParams& p, const SplitShared<Config>& shared,
                                   const SplitAddresses<Config>& at) {
  SplitStream<Config> stream(p, at.values, /*values=*/true);
  SlotCursor<SplitShared<Config>::kWorkSlots> cursor;
  for (;; cursor.Advance()) {
    sm90::Wait(at.work_full + 8 * cursor.slot, cursor.parity);
    const SplitWork& work = shared.work[cursor.slot];
    if (work.tile.rows == 0) return;
    stream.Load(work);
    if (threadIdx.x % 32 == 0) sm90::Arrive(at.work_empty + 8 * cursor.slot);
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
