#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_

// The split kernel's shapes, its shared memory, and the warps that feed it. attention_split.cuh
// says what the kernel is.

#include <climits>

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/sm90/atomic.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

// kSharedValue: a cluster of CTAs shares each unit.
template <int kHeadDimValue, bool kSharedValue>
struct SplitConfig {
  static constexpr int kHeadDim = kHeadDimValue;
  static constexpr bool kShared = kSharedValue;
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
  int splits;  // to be merged by who finishes the last; 1: the two below say what becomes of it
  bool sends_mail;     // to the CTA with the tile's last split
  bool collects_mail;  // from those with the others
  int first_unit;      // in the plan, of the tile's splits
  int tile_slot;
  // Where a cluster shares a unit: the CTA's part of the keys, and whether parts with visible keys
  // lie in front of it and behind it.
  KeyRange part;
  bool receives, sends;

  // The keys of a split that are this CTA's.
  __device__ KeyRange KeysOf(int of_split, const KeyRange& visible) const {
    return visible.InSplit(of_split).Within(part.first, part.last + 1);
  }
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
  // What the CTA in front of this one in its cluster hands on, of each lane: its part of the
  // output, then its sums and buckets.
  static constexpr int kRelayVectors = 2 * Config::kOwnPairs + 1;
  float4 relay[Config::kShared ? Config::kWarps : 1][kRelayVectors][32];
  SplitWork work[kWorkSlots];
  alignas(8) uint64_t work_full[kWorkSlots];
  uint64_t work_empty[kWorkSlots];
  uint64_t stored[kWorkSlots];  // the result of a unit is in global memory
  uint64_t told[kWorkSlots];    // `merges` holds
  uint64_t keys_full[Config::kSlots], keys_empty[Config::kSlots];
  uint64_t values_full[Config::kSlots], values_empty[Config::kSlots];
  uint64_t relay_full[Config::kWarps];
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
  uint32_t work_full, work_empty, stored, told, probability, query, relay, relay_full;

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
    relay = rest + offsetof(Shared, relay);
    relay_full = rest + offsetof(Shared, relay_full);
  }
};

// The steps of a split, for producers and consumers alike: all walk them in this order, and of each
// step the chunks with visible keys.
template <class Config>
struct StepWalk {
  KeyRange keys;  // of the split and of this CTA, that some row sees

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

  // when_full() is called once, when the ring has been filled or all is loaded.
  template <typename WhenFull>
  __device__ void Load(const SplitWork& work, const WhenFull& when_full) {
    int chunks = 0;
    const KeyRange keys = work.tile.KeysOfAny(p_.group, p_.window);
    Loader loader(p_, work.tile.sequence, work.kv_head, keys, values_);
    loader.Find(StepWalk<Config>{work.KeysOf(work.first_split, keys)}.Begin());
#pragma unroll 1
    for (int split = work.first_split; split < work.end_split; ++split) {
      const StepWalk<Config> walk = {work.KeysOf(split, keys)};
#pragma unroll 1
      for (int step = walk.Begin(); walk.Has(step); step += Config::kStepKeys) {
        loader.Take();
        loader.Find(step + Config::kStepKeys);
#pragma unroll
        for (int chunk = 0; chunk < Config::kChunksPerStep; ++chunk) {
          if (!walk.HasChunk(step, chunk)) continue;
          if (++chunks == Config::kSlots + 1) when_full();
          if (chunk == 0) Start<0>(loader, step, work.tile.position);
          if (chunk == 1) Start<1>(loader, step, work.tile.position);
        }
      }
    }
    if (chunks <= Config::kSlots) when_full();
  }

 private:
  using Loader = TileLoader<Config::kHeadDim, Config::kStepKeys>;
  static_assert(Config::kChunksPerStep == 2);

  // Keys from first_new on are written by kernels in front of this one; those before were there
  // before the batch.
  template <int kChunk>
  __device__ void Start(const Loader& loader, int step, int first_new) {
    constexpr int kGroups = Config::kChunkKeys / kKvGroupTokens;
    if (step + (kChunk + 1) * Config::kChunkKeys > first_new) sm90::WaitForPriorKernels();
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
        first_index_(static_cast<int>(blockIdx.x) / p.share),
        first_unit_(ReadUnit(p.split_units + first_index_ / p.kv_heads())),
        split_works_(__ldcg(&p.counts->split_units) * p.kv_heads()) {}

  // The plan, the page table and old keys are read before the kernels in front of this one have
  // ended, so that the rings are full when they have. Not through L1, which may be older.
  __device__ void Run() {
    SplitStream<Config> stream(p_, at_.keys, /*values=*/false);
    // The first unit is the CTA's own, so that a short launch waits for no ticket; it is read
    // before it is known that there is one.
    SplitUnit unit = first_unit_;
    int index = first_index_;
    for (bool first = true; index < split_works_; first = false) {
      index = Feed(WorkOf(unit, index), first, stream);
      if (index < split_works_) unit = ReadUnit(p_.split_units + index / p_.kv_heads());
    }
    if (!IsSingleRound()) FinishRounds(index, stream);
    Publish(SplitWork{});
  }

 private:
  __device__ bool IsSingleRound() const { return Config::kShared || p_.single_round; }

  // Tells the others of a unit and streams its keys. Returns where to go on.
  __device__ int Feed(const SplitWork& work, bool first, SplitStream<Config>& stream) {
    if (work.part.IsEmpty()) return INT_MAX;
    int ticket = first ? 0 : TakeTicket();
    Publish(work);
    stream.Load(work, [&] {
      if (!first || IsSingleRound()) return;
      sm90::WaitForPriorKernels();
      ticket = TakeTicket();
    });
    if (IsSingleRound()) return INT_MAX;
    return static_cast<int>(gridDim.x) + __shfl_sync(0xffffffffu, ticket, 0);
  }
  // Known to lane 0.
  __device__ int TakeTicket() const {
    return lane_ == 0 ? static_cast<int>(atomicAdd(&p_.counters->split_tickets, 1u)) : 0;
  }

  // What the prefill kernel gave up.
  __device__ void FinishRounds(int index, SplitStream<Config>& stream) {
    sm90::WaitForPriorKernels();
    const int works = split_works_ + static_cast<int>(p_.counters->redo_units);
    while (index < works) index = Feed(RedoAt(index), /*first=*/false, stream);
    if (lane_ == 0) SignOff();
  }

  static __device__ SplitUnit ReadUnit(const SplitUnit* from) {
    const auto* words = reinterpret_cast<const int4*>(from);
    const int4 read[] = {__ldcg(words), __ldcg(words + 1)};
    SplitUnit unit;
    static_assert(sizeof(unit) == sizeof(read));
    memcpy(&unit, read, sizeof(unit));
    return unit;
  }

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
    work.splits = all || IsSingleRound() ? 1 : splits;
    const bool has_mail = IsSingleRound() && !all;
    work.sends_mail = has_mail && split != keys.last / kSplitKeys;
    work.collects_mail = has_mail && !work.sends_mail && splits > 1;
    work.part = keys;
    if constexpr (Config::kShared) SetPart(keys.InSplit(split), work);
  }

  // This CTA's run of the keys of a split that the cluster shares; empty if it has none of those.
  __device__ void SetPart(const KeyRange& keys, SplitWork& work) const {
    const int part_keys = kSplitKeys / p_.share;
    const int begin =
        work.first_split * kSplitKeys + static_cast<int>(sm90::ClusterRank()) * part_keys;
    work.part = keys.Within(begin, begin + part_keys);
    work.receives = keys.first < begin;
    work.sends = keys.last >= begin + part_keys;
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
  const int first_index_;
  const SplitUnit first_unit_;
  const int split_works_;
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
    stream.Load(work, [] {});
    if (threadIdx.x % 32 == 0) sm90::Arrive(at.work_empty + 8 * cursor.slot);
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
