#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_PRODUCER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_PRODUCER_CUH_

// The warps of the prefill kernel that bring keys, values and queries.

#include "kernels/cuda/attention_prefill_shared.cuh"
#include "kernels/cuda/sm90/async_proxy.h"
#include "kernels/cuda/sm90/atomic.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/named_barrier.h"

namespace isobit::cuda {

// Streams the keys or the values of tiles through their stages. One warp.
template <class Config, bool kIsValues>
class PrefillStream {
 public:
  __device__ PrefillStream(const AttentionParams& p, const PrefillAddresses<Config>& at)
      : p_(p), at_(at) {}

  // Calls after_first() when the first copies are on their way.
  template <typename AfterFirst>
  __device__ void Load(const PrefillWork& work, const AfterFirst& after_first) {
    const PrefillKeys<Config> keys(p_, work.tile);
    Loader loader(p_, work.tile.sequence, work.kv_head, keys.any, kIsValues);
    int begin = keys.Begin();
    loader.Find(begin);
    bool is_first = true;
#pragma unroll 1
    for (; begin <= keys.any.last; begin += Config::kTileKeys) {
      loader.Take();
      loader.Find(begin + Config::kTileKeys);
      if constexpr (kIsValues) {
        sm90::Wait(at_.values_empty + 8 * cursor_.slot, cursor_.parity ^ 1);
        const uint32_t full = keys.IsHidden(begin) ? at_.values_loaded : at_.values_full;
        loader.StartApart(at_.Values(cursor_.slot), Config::kValueAtomsBytes,
                          full + 8 * cursor_.slot);
      } else {
        sm90::Wait(at_.keys_empty + 8 * cursor_.slot, cursor_.parity ^ 1);
        loader.template Start<0, Loader::kGroups>(at_.Keys(cursor_.slot),
                                                  at_.keys_full + 8 * cursor_.slot);
      }
      cursor_.Advance();
      ++tiles_;
      if (is_first) after_first();
      is_first = false;
    }
  }

  __device__ unsigned tiles() const { return tiles_; }

 private:
  using Loader = TileLoader<Config::kHeadDim, Config::kTileKeys>;

  const AttentionParams& p_;
  const PrefillAddresses<Config>& at_;
  typename Config::Cursor cursor_;
  unsigned tiles_ = 0;  // that were loaded
};

// The keys' warp: it takes tiles, and tells the others.
template <class Config>
class PrefillKeysWarp {
 public:
  __device__ PrefillKeysWarp(const AttentionParams& p, PrefillShared<Config>& shared,
                             const PrefillAddresses<Config>& at)
      : p_(p), shared_(shared), at_(at), lane_(static_cast<int>(threadIdx.x) % 32) {
    tiles_ = p.counts->prefill_tiles;
    heads_at_once_ = HeadsAtOnce();
  }

  __device__ void Run() {
    PrefillStream<Config, false> stream(p_, at_);
    PrefillWork work = WorkAt(static_cast<int>(blockIdx.x));
    Publish(work);
    while (work.tile.rows != 0) {
      PrefillWork next;
      // Early, so that the next queries can come.
      stream.Load(work, [&] {
        next = TakeWork();
        Publish(next);
      });
      work = next;
    }
    if (lane_ == 0) SignOff(stream.tiles());
  }

 private:
  // Key heads whose keys and values stay in L2 together while all tiles of rows meet them.
  static constexpr int64_t kBytesAtOnce = int64_t{16} << 20;
  __device__ int HeadsAtOnce() const {
    const int64_t bytes = p_.counts->prefill_keys * 4 * Config::kHeadDim;  // of a head
    const int heads = p_.kv_heads();
    if (bytes * heads <= kBytesAtOnce) return heads;
    return max(static_cast<int>(kBytesAtOnce / bytes), 1);
  }

  // Some heads with all tiles, the longest first, then the next heads.
  __device__ PrefillWork WorkAt(int index) const {
    if (tiles_ == 0) return PrefillWork{};
    const int per_round = tiles_ * heads_at_once_;
    const int round = index / per_round;
    const int first_head = round * heads_at_once_;
    if (first_head >= p_.kv_heads()) return PrefillWork{};
    const int heads = min(heads_at_once_, p_.kv_heads() - first_head);
    const int in_round = index - round * per_round;
    if (in_round >= tiles_ * heads) return PrefillWork{};
    return {p_.prefill_tiles[in_round / heads], first_head + in_round % heads};
  }

  __device__ PrefillWork TakeWork() const {
    int ticket = 0;
    if (lane_ == 0) ticket = static_cast<int>(atomicAdd(&p_.counters->prefill_tickets, 1u));
    return WorkAt(static_cast<int>(gridDim.x) + __shfl_sync(0xffffffffu, ticket, 0));
  }

  __device__ void Publish(const PrefillWork& work) {
    sm90::Wait(at_.work_empty + 8 * work_cursor_.slot, work_cursor_.parity ^ 1);
    if (lane_ == 0) {
      shared_.work[work_cursor_.slot] = work;
      sm90::Arrive(at_.work_full + 8 * work_cursor_.slot);
    }
    work_cursor_.Advance();
  }

  // The last CTA of the launch leaves the counters as it found them.
  __device__ void SignOff(unsigned tiles) const {
    using Counter = unsigned long long;
    AttentionCounters& counters = *p_.counters;
    atomicAdd(&counters.tiles, Counter{tiles} * (Config::kTileRows / 16));
    const unsigned last = gridDim.x - 1;
    if (sm90::IncrementInOrder(&counters.prefill_ctas_done, last) == last) {
      counters.prefill_tickets = 0;
    }
  }

  const AttentionParams& p_;
  PrefillShared<Config>& shared_;
  const PrefillAddresses<Config>& at_;
  const int lane_;
  int tiles_, heads_at_once_;
  SlotCursor<PrefillShared<Config>::kWorkSlots> work_cursor_;
};

template <class Config>
__device__ void RunPrefillValuesWarp(const AttentionParams& p, const PrefillShared<Config>& shared,
                                     const PrefillAddresses<Config>& at) {
  PrefillStream<Config, true> stream(p, at);
  SlotCursor<PrefillShared<Config>::kWorkSlots> cursor;
  for (;; cursor.Advance()) {
    sm90::Wait(at.work_full + 8 * cursor.slot, cursor.parity);
    const PrefillWork& work = shared.work[cursor.slot];
    if (work.tile.rows == 0) return;
    stream.Load(work, [] {});
    if (threadIdx.x % 32 == 0) sm90::Arrive(at.work_empty + 8 * cursor.slot);
  }
}

// Brings the queries of tiles, with zeros past their last rows. Each of kQueryThreads threads
// brings the same chunk of many rows.
template <class Config>
class PrefillQueryLoader {
 public:
  __device__ PrefillQueryLoader(const AttentionParams& p, const PrefillAddresses<Config>& at,
                                int thread)
      : p_(p), at_(at), chunk_(thread % kRowChunks), first_row_(thread / kRowChunks) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      in_atom_[i] = KvChunkOffset(Config::kHeadDim, first_row_ + i * kRowsAtOnce, chunk_);
    }
  }

  __device__ void Start(const PrefillWork& work) const {
    const AttentionTile& tile = work.tile;
    const Bf16* from =
        p_.q + p_.QueryOffset(tile, tile.packed, work.kv_head) + chunk_ * kKvChunkDims;
    const int first_token = p_.group.Divide(tile.packed);
    // From a token to the next, beyond its heads of this group.
    const int other_heads = p_.heads - p_.group.value();
#pragma unroll 2
    for (int atom = 0; atom < Config::kTileRows / kKvAtomTokens; ++atom) {
#pragma unroll
      for (int i = 0; i < kPasses; ++i) {
        const int row = atom * kKvAtomTokens + first_row_ + i * kRowsAtOnce;
        const int token = p_.group.Divide(tile.packed + row) - first_token;
        const bool present = row < tile.rows;
        const int offset = present ? (token * other_heads + row) * Config::kHeadDim : 0;
        sm90::CopyAsync16(at_.query + in_atom_[i] + atom * KvAtomsBytes(Config::kHeadDim),
                          from + offset, present);
      }
    }
  }

 private:
  static constexpr int kRowChunks = Config::kHeadDim / kKvChunkDims;
  static constexpr int kRowsAtOnce = Config::kQueryThreads / kRowChunks;
  static constexpr int kPasses = kKvAtomTokens / kRowsAtOnce;
  static_assert(kRowsAtOnce * kPasses == kKvAtomTokens);

  const AttentionParams& p_;
  const PrefillAddresses<Config>& at_;
  const int chunk_, first_row_;
  uint32_t in_atom_[kPasses];  // where this thread's chunks of eight rows go
};

// The query warps: they bring queries a tile ahead, and prepare values of tiles with hidden keys.
template <class Config>
class PrefillQueryWarps {
 public:
  __device__ PrefillQueryWarps(const AttentionParams& p, PrefillShared<Config>& shared,
                               const PrefillAddresses<Config>& at, int thread)
      : p_(p), shared_(shared), at_(at), thread_(thread), loader_(p, at, thread) {}

  __device__ void Run() {
    SlotCursor<PrefillShared<Config>::kWorkSlots> cursor;
    StartQuery(cursor);
    FinishQuery(cursor.slot);
    while (HasRows(cursor.slot)) {
      const PrefillKeys<Config> keys(p_, shared_.work[cursor.slot].tile);
      const int last = keys.any.last / Config::kTileKeys * Config::kTileKeys;
      for (int begin = keys.Begin(); begin < last; begin += Config::kTileKeys) {
        PrepareValues(keys, begin, cursor.slot);
      }
      // The next queries may have to wait until the last scores are made, and the last output will
      // wait for the first scores made of them.
      const auto next = cursor.After(1);
      StartQuery(next);
      PrepareValues(keys, last, cursor.slot);
      FinishQuery(next.slot);
      __syncwarp();
      if (thread_ % 32 == 0) sm90::Arrive(at_.work_empty + 8 * cursor.slot);
      cursor = next;
    }
  }

 private:
  static constexpr int kBarrier = 4;

  __device__ bool HasRows(int work_slot) const { return shared_.work[work_slot].tile.rows != 0; }

  __device__ void StartQuery(const SlotCursor<PrefillShared<Config>::kWorkSlots>& work) {
    sm90::Wait(at_.work_full + 8 * work.slot, work.parity);
    if (!HasRows(work.slot)) return;
    sm90::Wait(at_.query_empty, query_parity_ ^ 1);
    query_parity_ ^= 1;
    if (thread_ == 0) shared_.unsafe[work.slot] = 0;
    loader_.Start(shared_.work[work.slot]);
  }
  __device__ void FinishQuery(int work_slot) const {
    if (!HasRows(work_slot)) return;
    sm90::WaitCopies();
    sm90::FenceAsyncProxy();
    __syncwarp();
    if (thread_ % 32 == 0) sm90::Arrive(at_.query_full);
  }

  // In tiles with hidden keys: values that no row sees become zeros, and of the others those that
  // some row does not see must be finite, as they meet its probability of 0.
  __device__ void PrepareValues(const PrefillKeys<Config>& keys, int begin, int work_slot) {
    const int stage = values_cursor_.slot;
    values_cursor_.Advance();
    if (!keys.IsHidden(begin)) return;
    sm90::Wait(at_.values_loaded + 8 * stage, loaded_parity_ >> stage & 1);
    loaded_parity_ ^= 1u << stage;
    const bool unsafe = Prepare(keys, begin, at_.Values(stage));
    sm90::FenceAsyncProxy();
    const bool any_unsafe = sm90::SyncNamedAny(kBarrier, Config::kQueryThreads, unsafe);
    if (thread_ == 0) {
      if (any_unsafe) shared_.unsafe[work_slot] = 1;
      sm90::Arrive(at_.values_full + 8 * stage);
    }
  }

  // Whether a value was found that is not finite.
  __device__ bool Prepare(const PrefillKeys<Config>& keys, int begin, uint32_t values) const {
    constexpr int kRowChunks = Config::kHeadDim / kKvChunkDims;
    constexpr int kRowsAtOnce = Config::kQueryThreads / kRowChunks;
    const int chunk = thread_ % kRowChunks;
    bool unsafe = false;
#pragma unroll 4
    for (int row = thread_ / kRowChunks; row < Config::kTileKeys; row += kRowsAtOnce) {
      const int key = begin + row;
      if (keys.all.Meets(key, key + 1)) continue;
      const uint32_t in_atom = KvChunkOffset(Config::kHeadDim, row % kKvAtomTokens, chunk);
      auto* at = static_cast<uint4*>(__cvta_shared_to_generic(
          values + row / kKvAtomTokens * Config::kValueAtomsBytes + in_atom));
      if (!keys.any.Meets(key, key + 1)) {
        *at = uint4{0, 0, 0, 0};
      } else {
        unsafe = unsafe || HasNonFinite(*at);
      }
    }
    return unsafe;
  }

  static __device__ bool HasNonFinite(const uint4& chunk) {
    const uint32_t pairs[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
    bool found = false;
#pragma unroll
    for (uint32_t pair : pairs) {
      found = found || (pair & 0x7f80u) == 0x7f80u || (pair & 0x7f800000u) == 0x7f800000u;
    }
    return found;
  }

  const AttentionParams& p_;
  PrefillShared<Config>& shared_;
  const PrefillAddresses<Config>& at_;
  const int thread_;
  const PrefillQueryLoader<Config> loader_;
  uint32_t query_parity_ = 0;
  typename Config::Cursor values_cursor_;
  uint32_t loaded_parity_ = 0;  // a bit a stage
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_PRODUCER_CUH_
