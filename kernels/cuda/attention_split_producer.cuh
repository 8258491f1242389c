#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_

// The split kernel's shapes, its shared memory, and the warp that feeds it. attention_split.cuh
// says what the kernel is.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

template <int kHeadDimValue>
struct SplitConfig {
  static constexpr int kHeadDim = kHeadDimValue;
  static constexpr int kWarps = 8;  // that compute
  static constexpr int kConsumers = 32 * kWarps;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kChunkKeys = kBlockKeys;
  static constexpr int kStepKeys = 16 * kWarps;
  static constexpr int kChunksPerStep = kStepKeys / kChunkKeys;
  static constexpr int kSlotBytes = 2 * kChunkKeys * kHeadDim;
  static constexpr int kRingBytes = 192 << 10;
  static constexpr int kSlots = kRingBytes / kSlotBytes < 24 ? kRingBytes / kSlotBytes : 24;
  // A pair of n8 tiles: 16 columns of the output.
  static constexpr int kPairs = kHeadDim / 16;
  static constexpr int kOwnPairs = (kPairs + kWarps - 1) / kWarps;
  // Queries of wide heads do not fit into registers.
  static constexpr bool kQueriesInShared = kHeadDim > 128;
  using Cursor = SlotCursor<kSlots>;
};

// What the producer tells the consumers of a unit. No rows: there is no more work.
struct SplitWork {
  AttentionTile tile;
  int kv_head;
  int first_split, end_split;  // of this unit
  int tile_first_split;
  int splits;      // to be merged; 1 if this unit finishes the tile
  int first_unit;  // in the plan, of the tile's splits
  int tile_slot;
};

// Shared memory behind the ring. Rows are padded so that eight of them lie in different banks.
template <class Config>
struct SplitShared {
  static constexpr int kProbabilityStride = Config::kStepKeys + 8;
  static constexpr int kScoreStride = Config::kStepKeys + 4;
  static constexpr int kQueryStride = Config::kQueriesInShared ? Config::kHeadDim + 8 : 8;
  static constexpr int kWorkSlots = 2;

  alignas(16) Bf16 probability[2][kSplitTileRows][kProbabilityStride];
  alignas(16) Bf16 query[Config::kQueriesInShared ? kSplitTileRows : 1][kQueryStride];
  float score[kSplitTileRows][kScoreStride];
  SplitWork work[kWorkSlots];
  alignas(8) uint64_t work_full[kWorkSlots];
  uint64_t work_empty[kWorkSlots];
  uint64_t full[Config::kSlots];
  uint64_t empty[Config::kSlots];
  bool merges;
};

template <class Config>
constexpr int SplitSharedBytes() {
  return Config::kSlots * Config::kSlotBytes + static_cast<int>(sizeof(SplitShared<Config>));
}

// Addresses of the above in the shared window.
template <class Config>
struct SplitAddresses {
  uint32_t ring, full, empty, work_full, work_empty, probability, query;

  __device__ SplitAddresses(uint32_t base) : ring(base) {
    using Shared = SplitShared<Config>;
    const uint32_t rest = base + Config::kSlots * Config::kSlotBytes;
    full = rest + offsetof(Shared, full);
    empty = rest + offsetof(Shared, empty);
    work_full = rest + offsetof(Shared, work_full);
    work_empty = rest + offsetof(Shared, work_empty);
    probability = rest + offsetof(Shared, probability);
    query = rest + offsetof(Shared, query);
  }
  __device__ uint32_t Slot(int slot) const { return ring + slot * Config::kSlotBytes; }
};

// The steps of a tile's splits, for producer and consumers alike: both walk them in this order, and
// of each step the chunks with visible keys; first their keys, then their values.
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

// ---- Producer, one warp

template <class Config>
class SplitProducer {
 public:
  __device__ SplitProducer(const AttentionParams& p, SplitShared<Config>& shared,
                           const SplitAddresses<Config>& at)
      : p_(p), shared_(shared), at_(at), lane_(static_cast<int>(threadIdx.x) % 32) {
    split_works_ = p.counts->split_units * p.kv_heads();
    works_ = split_works_ + static_cast<int>(p.counters->redo_units);
  }

  __device__ void Run() {
    // The first unit is the CTA's own, so that a short launch waits for no ticket.
    int index = static_cast<int>(blockIdx.x);
    while (index < works_) {
      const SplitWork work = WorkAt(index);
      int ticket = 0;
      if (lane_ == 0) ticket = static_cast<int>(atomicAdd(&p_.counters->split_tickets, 1u));
      Publish(work);
      Load(work);
      index = static_cast<int>(gridDim.x) + __shfl_sync(0xffffffffu, ticket, 0);
    }
    Publish(SplitWork{});
    if (lane_ == 0) SignOff();
  }

 private:
  __device__ SplitWork WorkAt(int index) const {
    SplitWork work = {};
    if (index >= split_works_) {
      const RedoUnit& unit = p_.redo[index - split_works_];
      work.tile = unit.tile;
      work.kv_head = unit.kv_head;
      SetSplits(kAllSplits, 1, work);
      return work;
    }
    const int unit_index = index / p_.kv_heads();
    const SplitUnit unit = p_.split_units[unit_index];
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

  // Hands a unit to the consumers, at most one ahead of what they work on.
  __device__ void Publish(const SplitWork& work) {
    sm90::Wait(at_.work_empty + 8 * work_cursor_.slot, work_cursor_.parity ^ 1);
    if (lane_ == 0) {
      shared_.work[work_cursor_.slot] = work;
      sm90::Arrive(at_.work_full + 8 * work_cursor_.slot);
    }
    work_cursor_.Advance();
  }

  using Loader = TileLoader<Config::kHeadDim, Config::kStepKeys>;

  __device__ void Load(const SplitWork& work) {
    const KeyRange keys = work.tile.KeysOfAny(p_.group, p_.window);
    const Loader loader(p_, work.tile.sequence, work.kv_head, keys);
    typename Loader::Place place = {};
#pragma unroll 1
    for (int split = work.first_split; split < work.end_split; ++split) {
      const StepWalk<Config> walk = {keys.InSplit(split)};
      if (split == work.first_split) place = loader.Find(walk.Begin());
#pragma unroll 1
      for (int step = walk.Begin(); walk.Has(step); step += Config::kStepKeys) {
        const typename Loader::Place next_place = loader.Find(step + Config::kStepKeys);
#pragma unroll 1
        for (int part = 0; part < 2 * Config::kChunksPerStep; ++part) {
          const int chunk = part % Config::kChunksPerStep;
          if (walk.HasChunk(step, chunk)) {
            LoadChunk(loader, place, chunk, /*values=*/part >= Config::kChunksPerStep);
          }
        }
        place = next_place;
      }
    }
  }

  __device__ void LoadChunk(const Loader& loader, const typename Loader::Place& place, int chunk,
                            bool values) {
    constexpr int kChunkGroups = Config::kChunkKeys / kKvGroupTokens;
    sm90::Wait(at_.empty + 8 * cursor_.slot, cursor_.parity ^ 1);
    loader.template Load<kChunkGroups>(place, chunk * kChunkGroups, values, at_.Slot(cursor_.slot),
                                       at_.full + 8 * cursor_.slot);
    cursor_.Advance();
  }

  // The last CTA of the launch leaves the counters as it found them.
  __device__ void SignOff() const {
    AttentionCounters& counters = *p_.counters;
    __threadfence();
    if (atomicInc(&counters.split_ctas_done, gridDim.x - 1) != gridDim.x - 1) return;
    counters.split_tickets = 0;
    counters.redo_units = 0;
  }

  const AttentionParams& p_;
  SplitShared<Config>& shared_;
  const SplitAddresses<Config>& at_;
  const int lane_;
  int split_works_, works_;
  SlotCursor<SplitShared<Config>::kWorkSlots> work_cursor_;
  typename Config::Cursor cursor_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_PRODUCER_CUH_
