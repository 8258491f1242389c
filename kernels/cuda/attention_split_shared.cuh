#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SHARED_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SHARED_CUH_

// The split kernel's shapes, its units of work and its shared memory. attention_split.cuh says what
// the kernel is.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
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

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SHARED_CUH_
