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

  // Calls before_end() once, when all copies but those of a few tiles are on their way.
  template <typename BeforeEnd>
  __device__ void Load(const PrefillWork& work, const BeforeEnd& before_end) {
    constexpr int kEndKeys = 3 * Config::kTileKeys;
    const PrefillKeys<Config> keys(p_, work);
    Loader loader(p_, work.tile.sequence, work.kv_head, keys.any, kIsValues);
    int begin = keys.Begin();
    loader.Find(begin);
    bool is_end = false;
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
      if (!is_end && begin + kEndKeys > keys.any.last) {
        is_end = true;
        before_end();
      }
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
      : p_(p),
        shared_(shared),
        at_(at),
        lane_(static_cast<int>(threadIdx.x) % 32),
        heads_at_once_(HeadsAtOnce(p)) {
    if (lane_ == 0) shared_.counts = *p.counts;
    __syncwarp();
  }

  __device__ void Run() {
    PrefillStream<Config, false> stream(p_, at_);
    Publish(FirstIndex());
    for (;;) {
      const PrefillWork& work = shared_.work[work_cursor_.Before().slot];
      if (work.tile.rows == 0) break;
      // In time for the next queries to come, but not before it is known who is ready for what.
      stream.Load(work, [this] { Publish(NextIndex()); });
    }
    if (lane_ == 0) SignOff(stream.tiles());
  }

 private:
  // Key heads whose keys and values stay in L2 together while all tiles of rows meet them.
  static constexpr int64_t kBytesAtOnce = int64_t{16} << 20;
  static __device__ int HeadsAtOnce(const AttentionParams& p) {
    const int64_t bytes = p.counts->prefill_keys * 4 * Config::kHeadDim;  // of a head
    const int heads = p.kv_heads();
    if (bytes * heads <= kBytesAtOnce) return heads;
    return max(static_cast<int>(kBytesAtOnce / bytes), 1);
  }

  __device__ PrefillWork WorkAt(int index) const {
    return PrefillWorks(shared_.counts, p_.prefill_tiles, p_.kv_heads(), heads_at_once_, p_.group,
                        p_.window)
        .At(index);
  }

  // Where works are cut, CTAs wait for each other's: none may be given to a CTA that has not begun.
  __device__ bool IsFirstGiven() const { return shared_.counts.prefill_cut_tiles == 0; }
  __device__ int FirstIndex() const {
    return IsFirstGiven() ? static_cast<int>(blockIdx.x) : NextIndex();
  }
  __device__ int NextIndex() const {
    int ticket = 0;
    if (lane_ == 0) ticket = static_cast<int>(atomicAdd(&p_.counters->prefill_tickets, 1u));
    const int given = IsFirstGiven() ? static_cast<int>(gridDim.x) : 0;
    return given + __shfl_sync(0xffffffffu, ticket, 0);
  }

  __device__ void Publish(int index) {
    const PrefillWork work = WorkAt(index);
    sm90::Wait(at_.work_empty + 8 * work_cursor_.slot, work_cursor_.parity ^ 1);
    if (lane_ == 0) {
      shared_.work[work_cursor_.slot] = work;
      sm90::Arrive(at_.work_full + 8 * work_cursor_.slot);
    }
    __syncwarp();
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
  const int heads_at_once_;
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
    if (Config::Arrives(threadIdx.x % 32)) sm90::Arrive(at.work_empty + 8 * cursor.slot);
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

  // Eight rows are passed through a few at a time. Of the row of a pass, and of this thread's chunk
  // of it: where they lie in the eight.
  static constexpr int kRowChunks = Config::kHeadDim / kKvChunkDims;
  static constexpr int kRowsAtOnce = Config::kQueryThreads / kRowChunks;
  static constexpr int kPasses = kKvAtomTokens / kRowsAtOnce;
  static_assert(kRowsAtOnce * kPasses == kKvAtomTokens);
  __device__ int RowInAtom(int pass) const { return first_row_ + pass * kRowsAtOnce; }
  __device__ uint32_t ChunkInAtom(int pass) const { return in_atom_[pass]; }

 private:
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
      const PrefillKeys<Config> keys(p_, shared_.work[cursor.slot]);
      const int last = keys.any.last / Config::kTileKeys * Config::kTileKeys;
      for (int begin = keys.Begin(); begin < last; begin += Config::kTileKeys) {
        PrepareValues(keys, begin, cursor.slot);
      }
      PrepareValues(keys, last, cursor.slot);
      // They may have to wait until the last scores are made.
      const auto next = cursor.After(1);
      StartQuery(next);
      FinishQuery(next.slot);
      __syncwarp();
      if (Config::Arrives(thread_ % 32)) sm90::Arrive(at_.work_empty + 8 * cursor.slot);
      cursor = next;
    }
  }

 private:
  using Loader = PrefillQueryLoader<Config>;
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
    if (Config::Arrives(thread_ % 32)) sm90::Arrive(at_.query_full);
  }

  // In tiles with hidden keys: values that no row sees become zeros, and of the others those that
  // some row does not see must be finite, as they meet its probability of 0.
  __device__ void PrepareValues(const PrefillKeys<Config>& keys, int begin, int work_slot) {
    const auto at = values_cursor_;
    values_cursor_.Advance();
    if (keys.IsHidden(begin)) PrepareStage(keys, begin, at.slot, work_slot);
    if constexpr (Config::kReleasingQueryThreads > 0) {
      sm90::Wait(at_.values_full + 8 * at.slot, at.parity);  // not in an earlier phase
      sm90::Arrive(at_.values_empty + 8 * at.slot);
    }
  }
  __device__ void PrepareStage(const PrefillKeys<Config>& keys, int begin, int stage,
                               int work_slot) {
    sm90::Wait(at_.values_loaded + 8 * stage, loaded_parity_ >> stage & 1);
    loaded_parity_ ^= 1u << stage;
    const bool unsafe = Prepare(keys, begin, shared_.values[stage]);
    sm90::FenceAsyncProxy();
    const bool any_unsafe = sm90::SyncNamedAny(kBarrier, Config::kQueryThreads, unsafe);
    if (thread_ == 0) {
      if (any_unsafe) shared_.unsafe[work_slot] = 1;
      sm90::Arrive(at_.values_full + 8 * stage);
    }
  }

  // Whether a value was found that is not finite.
  __device__ bool Prepare(const PrefillKeys<Config>& keys, int begin, uint8_t* values) const {
    uint32_t carries = 0;
#pragma unroll 2
    for (int atom = 0; atom < Config::kTileKeys / kKvAtomTokens; ++atom) {
      const int key = begin + atom * kKvAtomTokens;
      if (keys.all.first <= key && key + kKvAtomTokens <= keys.all.last + 1) continue;
#pragma unroll
      for (int pass = 0; pass < Loader::kPasses; ++pass) {
        const int own = key + loader_.RowInAtom(pass);
        if (keys.all.Meets(own, own + 1)) continue;
        auto* const at = reinterpret_cast<uint4*>(values + atom * Config::kValueAtomsBytes +
                                                  loader_.ChunkInAtom(pass));
        if (keys.any.Meets(own, own + 1)) {
          carries |= ExponentCarries(at->x) | ExponentCarries(at->y) | ExponentCarries(at->z) |
                     ExponentCarries(at->w);
        } else {
          *at = uint4{0, 0, 0, 0};
        }
      }
    }
    return (carries & 0x80008000u) != 0;
  }

  // Of a pair of bf16: the highest bit of a half is set if its exponent is all ones.
  static __device__ uint32_t ExponentCarries(uint32_t pair) {
    return (pair & 0x7f807f80u) + 0x00800080u;
  }

  const AttentionParams& p_;
  PrefillShared<Config>& shared_;
  const PrefillAddresses<Config>& at_;
  const int thread_;
  const Loader loader_;
  uint32_t query_parity_ = 0;
  typename Config::Cursor values_cursor_;
  uint32_t loaded_parity_ = 0;  // a bit a stage
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_PRODUCER_CUH_
