#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_SHARED_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_SHARED_CUH_

// What the warps of the prefill kernel share: sizes, shared memory, barriers.

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_prefill_work.h"
#include "kernels/cuda/attention_ring.cuh"

namespace isobit::cuda {

template <int kHeadDimValue>
struct PrefillConfig {
  static constexpr int kHeadDim = kHeadDimValue;
  static constexpr int kTileRows = PrefillTileRows(kHeadDim);
  static constexpr int kWarpgroups = kTileRows / 64;
  static constexpr int kWarpgroupRows = kTileRows / kWarpgroups;
  static constexpr int kTileKeys = kPrefillTileKeys;
  static constexpr int kStages = kHeadDim <= 64 ? 4 : 2;
  // Else wgmma reads them from shared memory, as there are no registers left.
  static constexpr bool kQueryInRegisters = kHeadDim <= 64;
  static constexpr int kConsumers = 128 * kWarpgroups;
  // Warps of the last warpgroup.
  static constexpr int kKeysWarp = 4 * kWarpgroups;
  static constexpr int kValuesWarp = kKeysWarp + 1;
  static constexpr int kFirstQueryWarp = kKeysWarp + 2;
  static constexpr int kQueryThreads = 64;
  static constexpr int kThreads = kConsumers + 128;
  // Together what a launch of this many threads gets: four times 128, or three times 168.
  static constexpr int kProducerRegisters = kWarpgroups == 3 ? 32 : 40;
  static constexpr int kConsumerRegisters = kWarpgroups == 3 ? 160 : 232;

  static constexpr int kQueryBytes = 2 * kTileRows * kHeadDim;
  static constexpr int kKeyTileBytes = 2 * kTileKeys * kHeadDim;
  // Behind the values of eight tokens lies an atom of ones: one product makes both o and l.
  static constexpr int kValueAtomsBytes = KvAtomsBytes(kHeadDim) + kKvAtomBytes;
  static constexpr int kValueTileBytes = kTileKeys / kKvAtomTokens * kValueAtomsBytes;
  // The output of the splits before, in fours of floats a thread.
  static constexpr int kMergedFours = kTileRows * kHeadDim / kConsumers / 4;
  static constexpr bool kMergedInGlobal = kHeadDim > 128;
  // The output of a split and its l, likewise.
  static constexpr int kSumFours = kMergedFours + 1;
  using Cursor = SlotCursor<kStages>;
  // At an mbarrier, one thread arrives for others, after a barrier with them. compute-sanitizer's
  // racecheck does not see that this covers their accesses, so in a build for it all arrive.
#ifdef ISOBIT_RACECHECK
  static constexpr bool kAllArrive = true;
#else
  static constexpr bool kAllArrive = false;
#endif
  // Of a warp, when it has read a work, or brought queries.
  static constexpr int kArrivingLanes = kAllArrive ? 32 : 1;
  static __device__ bool Arrives(int lane) { return kAllArrive || lane == 0; }
  // Of the query warps, who look at values, one thread tells the consumers, and it is they who give
  // the values back.
  static constexpr int kReleasingQueryThreads = kAllArrive ? kQueryThreads : 0;
};

// The keys of a work, in tiles.
template <class Config>
struct PrefillKeys {
  KeyRange any;  // of the work, that some row sees
  KeyRange all;  // that all rows see

  PrefillKeys() = default;
  __device__ PrefillKeys(const AttentionParams& p, const PrefillWork& work)
      : any(work.Keys(p.group, p.window)), all(work.tile.KeysOfAll(p.group, p.window)) {}

  // Where the first tile of keys begins.
  __device__ int Begin() const { return any.first / Config::kTileKeys * Config::kTileKeys; }
  __device__ bool IsLast(int begin) const { return begin + Config::kTileKeys > any.last; }
  // Some row does not see some key of the tile at `begin`.
  __device__ bool IsHidden(int begin) const {
    return begin < all.first || begin + Config::kTileKeys > all.last + 1;
  }
};

// Shared memory, in this order; operands are aligned to 1024 bytes and laid out as in kv_layout.h,
// values with their ones.
template <class Config>
struct PrefillShared {
  static constexpr int kWorkSlots = 4;

  uint8_t query[Config::kQueryBytes];
  uint8_t keys[Config::kStages][Config::kKeyTileBytes];
  uint8_t values[Config::kStages][Config::kValueTileBytes];
  float4 merged[Config::kMergedInGlobal ? 1 : Config::kMergedFours][Config::kConsumers];
  PlanCounts counts;  // for the keys' warp
  PrefillWork work[kWorkSlots];
  int unsafe[kWorkSlots];  // the work met values that are not finite and that some row does not see
  alignas(8) uint64_t work_full[kWorkSlots];
  uint64_t work_empty[kWorkSlots];
  uint64_t query_full, query_empty;
  uint64_t keys_full[Config::kStages], keys_empty[Config::kStages];
  // loaded: values that must be prepared before they are full.
  uint64_t values_loaded[Config::kStages];
  uint64_t values_full[Config::kStages], values_empty[Config::kStages];
};

template <class Config>
struct PrefillAddresses {
  uint32_t query, keys, values, work_full, work_empty, query_full, query_empty;
  uint32_t keys_full, keys_empty, values_loaded, values_full, values_empty;

  __device__ explicit PrefillAddresses(uint32_t base) {
    using Shared = PrefillShared<Config>;
    query = base + offsetof(Shared, query);
    keys = base + offsetof(Shared, keys);
    values = base + offsetof(Shared, values);
    work_full = base + offsetof(Shared, work_full);
    work_empty = base + offsetof(Shared, work_empty);
    query_full = base + offsetof(Shared, query_full);
    query_empty = base + offsetof(Shared, query_empty);
    keys_full = base + offsetof(Shared, keys_full);
    keys_empty = base + offsetof(Shared, keys_empty);
    values_loaded = base + offsetof(Shared, values_loaded);
    values_full = base + offsetof(Shared, values_full);
    values_empty = base + offsetof(Shared, values_empty);
  }
  __device__ uint32_t Keys(int stage) const { return keys + stage * Config::kKeyTileBytes; }
  __device__ uint32_t Values(int stage) const { return values + stage * Config::kValueTileBytes; }
};

template <class Config>
__device__ void InitPrefillBarriers(const PrefillAddresses<Config>& at) {
  constexpr int kConsumerWarps = Config::kConsumers / 32;
  constexpr int kQueryWarps = Config::kQueryThreads / 32;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < Config::kStages) {
    sm90::InitBarrier(at.keys_full + 8 * thread, 1);
    sm90::InitBarrier(at.keys_empty + 8 * thread, kConsumerWarps);
    sm90::InitBarrier(at.values_loaded + 8 * thread, 1);
    sm90::InitBarrier(at.values_full + 8 * thread, 1);
    sm90::InitBarrier(at.values_empty + 8 * thread,
                      kConsumerWarps + Config::kReleasingQueryThreads);
    sm90::FenceBarrierInit();
  }
  if (thread >= 32 && thread < 32 + PrefillShared<Config>::kWorkSlots) {
    sm90::InitBarrier(at.work_full + 8 * (thread - 32), 1);
    sm90::InitBarrier(at.work_empty + 8 * (thread - 32),
                      (kConsumerWarps + kQueryWarps + 1) * Config::kArrivingLanes);
    sm90::FenceBarrierInit();
  }
  if (thread == 64) {
    sm90::InitBarrier(at.query_full, kQueryWarps * Config::kArrivingLanes);
    sm90::InitBarrier(at.query_empty, Config::kConsumers);
    sm90::FenceBarrierInit();
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_SHARED_CUH_
