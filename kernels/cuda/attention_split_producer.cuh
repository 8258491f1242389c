#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_

// The warps that feed the split kernel. attention_split.cuh says what the kernel is.

#include <climits>

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/attention_split_shared.cuh"
#include "kernels/cuda/sm90/atomic.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

// Streams the keys or the values of units through a ring. One warp.
template <class Config>
class SplitStream {
 public:
  __device__ SplitStream(const AttentionParams& p, const SplitRing<Config>& ring, bool values)
      : p_(p), ring_(ring), values_(values) {}

  // near_end() is called once: when all but the last step is loaded, and `chunks_first` chunks at
  // least, or all.
  template <typename NearEnd>
  __device__ void Load(const SplitWork& work, int chunks_first, const NearEnd& near_end) {
    int chunks = 0;
    bool is_near_end = false;
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
          ++chunks;
          if (chunk == 0) Start<0>(loader, step, work.tile.position);
          if (chunk == 1) Start<1>(loader, step, work.tile.position);
        }
        const bool is_late = split + 1 == work.end_split && !walk.Has(step + 2 * Config::kStepKeys);
        if (!is_near_end && is_late && chunks >= chunks_first) {
          is_near_end = true;
          near_end();
        }
      }
    }
    if (!is_near_end) near_end();
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
    int ticket = 0;
    Publish(work);
    // The next unit is taken late: another CTA may be done with its own earlier. Tickets are there
    // when the kernels in front have ended, and until then the ring is filled.
    stream.Load(work, first ? Config::kSlots : 0, [&] {
      if (IsSingleRound()) return;
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
    stream.Load(work, 0, [] {});
    __syncwarp();
    if (threadIdx.x % 32 < Config::kReleasingLanes) sm90::Arrive(at.work_empty + 8 * cursor.slot);
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
