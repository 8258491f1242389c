#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CUH_

// The prefill kernel: attention of tiles of 128 packed rows on wgmma, longest tiles first
// (contract 4, the fast path only).
//
//   keys' warp       takes tiles and streams their keys through a ring of stages
//   values' warp     does the same with the values
//   2 query warps    bring the next tile's queries while the last one is finished
//   2 warpgroups     64 rows each: scores from shared memory, probabilities in registers, output in
//                    registers. They take turns, so that one's softmax runs under the other's
//                    products.
//
// All buckets are taken to be 0, and values that a row does not see to be finite. Each warp notes
// whether its rows broke that; if so it stores nothing and hands its 16 rows to the split kernel,
// which is launched next and knows every case. So no case is decided in the loop.
//
// Splits follow each other in one CTA: at the end of one, its output is added to that of those
// before, kept in `merged`.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/sm90/async_proxy.h"
#include "kernels/cuda/sm90/atomic.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/cuda/sm90/exp2.h"
#include "kernels/cuda/sm90/named_barrier.h"
#include "kernels/cuda/sm90/register_budget.h"
#include "kernels/cuda/sm90/wgmma.h"
#include "kernels/cuda/sm90/wgmma_register_a.h"
#include "kernels/numerics/grid_exp.h"

namespace isobit::cuda {

template <int kHeadDimValue>
struct PrefillConfig {
  static constexpr int kHeadDim = kHeadDimValue;
  static constexpr int kTileRows = kPrefillTileRows;
  static constexpr int kWarpgroups = 2;
  static constexpr int kWarpgroupRows = kTileRows / kWarpgroups;
  static constexpr int kTileKeys = kHeadDim <= 128 ? 128 : 64;
  static constexpr int kStages = kHeadDim <= 64 ? 4 : 2;
  static constexpr int kConsumers = 128 * kWarpgroups;
  // Warps of the third warpgroup.
  static constexpr int kKeysWarp = 4 * kWarpgroups;
  static constexpr int kValuesWarp = kKeysWarp + 1;
  static constexpr int kFirstQueryWarp = kKeysWarp + 2;
  static constexpr int kQueryThreads = 64;
  static constexpr int kThreads = kConsumers + 128;
  // 40 and twice 232 are three times the 168 that a launch of this many threads gets.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;

  static constexpr int kQueryBytes = 2 * kTileRows * kHeadDim;
  static constexpr int kKvTileBytes = 2 * kTileKeys * kHeadDim;
  static constexpr int kMergedFloats = kTileRows * kHeadDim;
  static constexpr bool kMergedInShared = kHeadDim <= 128;
  using Cursor = SlotCursor<kStages>;
};

// No rows: there is no more work.
struct PrefillWork {
  AttentionTile tile;
  int kv_head;
};

// Shared memory, in this order; operands are aligned to 1024 bytes and laid out as in kv_layout.h.
template <class Config>
struct PrefillShared {
  static constexpr int kWorkSlots = 2;
  static constexpr int kOnePairs = kKvAtomBytes / 4;

  uint8_t query[Config::kQueryBytes];
  uint8_t keys[Config::kStages][Config::kKvTileBytes];
  uint8_t values[Config::kStages][Config::kKvTileBytes];
  uint32_t ones[kOnePairs];  // pairs of bf16: the operand that makes l
  float merged[Config::kMergedInShared ? Config::kMergedFloats : 1];
  PrefillWork work[kWorkSlots];
  alignas(8) uint64_t work_full[kWorkSlots];
  uint64_t work_empty[kWorkSlots];
  uint64_t query_full, query_empty;
  uint64_t keys_full[Config::kStages], keys_empty[Config::kStages];
  uint64_t values_full[Config::kStages], values_empty[Config::kStages];
};

template <class Config>
struct PrefillAddresses {
  uint32_t query, keys, values, ones, work_full, work_empty, query_full, query_empty;
  uint32_t keys_full, keys_empty, values_full, values_empty;

  __device__ PrefillAddresses(uint32_t base) {
    using Shared = PrefillShared<Config>;
    query = base + offsetof(Shared, query);
    keys = base + offsetof(Shared, keys);
    values = base + offsetof(Shared, values);
    ones = base + offsetof(Shared, ones);
    work_full = base + offsetof(Shared, work_full);
    work_empty = base + offsetof(Shared, work_empty);
    query_full = base + offsetof(Shared, query_full);
    query_empty = base + offsetof(Shared, query_empty);
    keys_full = base + offsetof(Shared, keys_full);
    keys_empty = base + offsetof(Shared, keys_empty);
    values_full = base + offsetof(Shared, values_full);
    values_empty = base + offsetof(Shared, values_empty);
  }
  __device__ uint32_t Keys(int stage) const { return keys + stage * Config::kKvTileBytes; }
  __device__ uint32_t Values(int stage) const { return values + stage * Config::kKvTileBytes; }
};

// ---- Producers

// Streams the keys or the values of tiles through their stages. One warp.
template <class Config>
class PrefillStream {
 public:
  // slots, full, empty: where the stages and their barriers are.
  __device__ PrefillStream(const AttentionParams& p, uint32_t slots, uint32_t full, uint32_t empty,
                           bool values)
      : p_(p), slots_(slots), full_(full), empty_(empty), values_(values) {}

  __device__ void Load(const PrefillWork& work) {
    const KeyRange any = work.tile.KeysOfAny(p_.group, p_.window);
    Loader loader(p_, work.tile.sequence, work.kv_head, any, values_);
    int begin = any.first / Config::kTileKeys * Config::kTileKeys;
    loader.Find(begin);
#pragma unroll 1
    for (; begin <= any.last; begin += Config::kTileKeys) {
      loader.Take();
      loader.Find(begin + Config::kTileKeys);
      sm90::Wait(empty_ + 8 * cursor_.slot, cursor_.parity ^ 1);
      loader.template Start<0, Loader::kGroups>(slots_ + cursor_.slot * Config::kKvTileBytes,
                                                full_ + 8 * cursor_.slot);
      cursor_.Advance();
    }
  }

 private:
  using Loader = TileLoader<Config::kHeadDim, Config::kTileKeys>;

  const AttentionParams& p_;
  const uint32_t slots_, full_, empty_;
  const bool values_;
  typename Config::Cursor cursor_;
};

// The keys' warp: it takes tiles, and tells the others.
template <class Config>
class PrefillKeysWarp {
 public:
  __device__ PrefillKeysWarp(const AttentionParams& p, PrefillShared<Config>& shared,
                             const PrefillAddresses<Config>& at)
      : p_(p), shared_(shared), at_(at), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    PrefillStream<Config> stream(p_, at_.keys, at_.keys_full, at_.keys_empty, /*values=*/false);
    const int works = p_.counts->prefill_tiles * p_.kv_heads();
    int index = static_cast<int>(blockIdx.x);
    while (index < works) {
      const PrefillWork work = {p_.prefill_tiles[index / p_.kv_heads()], index % p_.kv_heads()};
      int ticket = 0;
      if (lane_ == 0) ticket = static_cast<int>(atomicAdd(&p_.counters->prefill_tickets, 1u));
      Publish(work);
      stream.Load(work);
      index = static_cast<int>(gridDim.x) + __shfl_sync(0xffffffffu, ticket, 0);
    }
    Publish(PrefillWork{});
    if (lane_ == 0) SignOff();
  }

 private:
  // At most one tile ahead of what the others work on.
  __device__ void Publish(const PrefillWork& work) {
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
    if (sm90::IncrementInOrder(&counters.prefill_ctas_done, last) == last) {
      counters.prefill_tickets = 0;
    }
  }

  const AttentionParams& p_;
  PrefillShared<Config>& shared_;
  const PrefillAddresses<Config>& at_;
  const int lane_;
  SlotCursor<PrefillShared<Config>::kWorkSlots> work_cursor_;
};

template <class Config>
__device__ void RunPrefillValuesWarp(const AttentionParams& p, const PrefillShared<Config>& shared,
                                     const PrefillAddresses<Config>& at) {
  PrefillStream<Config> stream(p, at.values, at.values_full, at.values_empty, /*values=*/true);
  SlotCursor<PrefillShared<Config>::kWorkSlots> cursor;
  for (;; cursor.Advance()) {
    sm90::Wait(at.work_full + 8 * cursor.slot, cursor.parity);
    const PrefillWork& work = shared.work[cursor.slot];
    if (work.tile.rows == 0) return;
    stream.Load(work);
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

  __device__ void Load(const PrefillWork& work) const {
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
    sm90::WaitCopies();
    sm90::FenceAsyncProxy();
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

template <class Config>
__device__ void RunPrefillQueryWarps(const AttentionParams& p, const PrefillShared<Config>& shared,
                                     const PrefillAddresses<Config>& at, int thread) {
  const PrefillQueryLoader<Config> loader(p, at, thread);
  SlotCursor<PrefillShared<Config>::kWorkSlots> cursor;
  for (uint32_t parity = 0;; parity ^= 1, cursor.Advance()) {
    sm90::Wait(at.work_full + 8 * cursor.slot, cursor.parity);
    const PrefillWork work = shared.work[cursor.slot];
    if (work.tile.rows == 0) return;
    sm90::Wait(at.query_empty, parity ^ 1);
    loader.Load(work);
    __syncwarp();
    if (thread % 32 == 0) {
      sm90::Arrive(at.query_full);
      sm90::Arrive(at.work_empty + 8 * cursor.slot);
    }
  }
}

// ---- Consumers

// One warpgroup. A thread holds two of its rows, 16 (warp % 4) + lane / 4 and the one 8 further on
// (half 0 and 1), and of these the columns of wgmma's accumulators (wgmma.h).
template <class Config>
class PrefillConsumer {
 public:
  __device__ PrefillConsumer(const AttentionParams& p, PrefillShared<Config>& shared,
                             const PrefillAddresses<Config>& at, int warp)
      : p_(p),
        at_(at),
        warpgroup_(warp / 4),
        first_row_(warp * 16),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    merged_ = Config::kMergedInShared
                  ? shared.merged
                  : p.prefill_merged + int64_t{blockIdx.x} * Config::kMergedFloats;
    merged_ += threadIdx.x;
    // Warpgroup 0 has the first turn.
    if (warpgroup_ == 1) sm90::ArriveNamed(kTurnBarrier + 0, Config::kConsumers);
  }

  __device__ void Attend(const PrefillWork& work) {
    Begin(work.tile);
    sm90::Wait(at_.query_full, query_parity_);
    query_parity_ ^= 1;

    int begin = any_.first / Config::kTileKeys * Config::kTileKeys;
    FirstScores();
    Softmax(begin);
#pragma unroll 1
    for (; begin + Config::kTileKeys <= any_.last; begin += Config::kTileKeys) {
      if (IsHidden(begin)) PrepareValues(begin);
      ScoresAndValues();
      if ((begin + Config::kTileKeys) % kSplitKeys == 0) EndSplit();
      Softmax(begin + Config::kTileKeys);
    }
    if (lane_ == 0) sm90::Arrive(at_.query_empty);
    if (IsHidden(begin)) PrepareValues(begin);
    LastValues();
    Finish(work);
  }

  // Adds what was done to the counters. By one thread of the CTA.
  __device__ void Count() const {
    using Counter = unsigned long long;
    if (tiles_ != 0) atomicAdd(&p_.counters->tiles, Counter{tiles_} * (Config::kTileRows / 16));
  }

 private:
  static constexpr int kTurnBarrier = 1;  // and 2: one for each warpgroup
  static constexpr int kValuesBarrier = 3;
  static constexpr int kScores = Config::kTileKeys / 2;
  static constexpr int kOutputs = Config::kHeadDim / 2;
  static constexpr int kValueSteps = Config::kTileKeys / kDotTerms;

  __device__ int Row(int half) const { return first_row_ + lane_ / 4 + 8 * half; }

  __device__ void Begin(const AttentionTile& tile) {
    any_ = tile.KeysOfAny(p_.group, p_.window);
    all_ = tile.KeysOfAll(p_.group, p_.window);
    for (int half = 0; half < 2; ++half) {
      row_keys_[half] = tile.KeysOf(min(Row(half), tile.rows - 1), p_.group, p_.window);
    }
    wild_ = false;
    is_merged_ = false;
    is_fresh_ = true;
  }

  // Some row does not see some key of the tile at `begin`.
  __device__ bool IsHidden(int begin) const {
    return begin < all_.first || begin + Config::kTileKeys > all_.last + 1;
  }

  // ---- Products

  // Operands lie in atoms as in kv_layout.h. Descriptors count in units of 16 bytes.
  static __device__ uint64_t Descriptor(uint32_t address) {
    return sm90::WgmmaAtomsDescriptor(address, KvAtomsBytes(Config::kHeadDim), kKvAtomBytes);
  }

  __device__ void IssueScores() {
    const uint64_t query =
        Descriptor(at_.query + warpgroup_ * Config::kWarpgroupRows * Config::kHeadDim * 2);
    const uint64_t keys = Descriptor(at_.Keys(keys_cursor_.slot));
#pragma unroll
    for (int step = 0; step < Config::kHeadDim / kDotTerms; ++step) {
      const uint64_t offset = (step / 4 * kKvAtomBytes + step % 4 * 2 * kDotTerms) / 16;
      sm90::WgmmaBf16(s_, query + offset, keys + offset, step > 0);
    }
    sm90::WgmmaCommit();
  }

  __device__ void IssueValues() {
    constexpr int kStepBytes = kDotTerms / kKvAtomTokens * KvAtomsBytes(Config::kHeadDim);
    const uint64_t values = Descriptor(at_.Values(values_cursor_.slot));
    // Every group of 8 keys meets the same ones.
    const uint64_t ones = sm90::WgmmaAtomsDescriptor(at_.ones, 0, 0);
    const uint32_t accumulate = is_fresh_ ? 0 : 1;
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
      sm90::WgmmaRegisterA(o_, probability_[step], values + step * (kStepBytes / 16),
                           step > 0 ? 1 : accumulate);
      sm90::WgmmaRegisterA(l_, probability_[step], ones, step > 0 ? 1 : accumulate);
    }
    sm90::WgmmaCommit();
    is_fresh_ = false;
  }

  __device__ void ReleaseKeys() {
    if (lane_ == 0) sm90::Arrive(at_.keys_empty + 8 * keys_cursor_.slot);
    keys_cursor_.Advance();
  }
  __device__ void ReleaseValues() {
    if (lane_ == 0) sm90::Arrive(at_.values_empty + 8 * values_cursor_.slot);
    values_cursor_.Advance();
  }
  __device__ void WaitForKeys() const {
    sm90::Wait(at_.keys_full + 8 * keys_cursor_.slot, keys_cursor_.parity);
  }
  __device__ void WaitForValues() const {
    sm90::Wait(at_.values_full + 8 * values_cursor_.slot, values_cursor_.parity);
  }

  __device__ void FirstScores() {
    WaitForKeys();
    sm90::WgmmaFence();
    IssueScores();
    sm90::WgmmaWait<0>();
    sm90::FenceAccumulators(s_);
    ReleaseKeys();
  }

  // Scores of a tile and, with the probabilities in hand, the output of the tile before it. The
  // warpgroups issue in turn; the other one's products run while this one is in its softmax.
  __device__ void ScoresAndValues() {
    sm90::SyncNamed(kTurnBarrier + warpgroup_, Config::kConsumers);
    WaitForKeys();
    WaitForValues();
    sm90::FenceAccumulators(o_);
    sm90::FenceAccumulators(l_);
    sm90::WgmmaFence();
    IssueScores();
    IssueValues();
    sm90::ArriveNamed(kTurnBarrier + (warpgroup_ ^ 1), Config::kConsumers);
    sm90::WgmmaWait<1>();  // the scores
    ReleaseKeys();
    sm90::WgmmaWait<0>();
    sm90::FenceAccumulators(s_);
    sm90::FenceAccumulators(o_);
    sm90::FenceAccumulators(l_);
    ReleaseValues();
  }

  __device__ void LastValues() {
    WaitForValues();
    sm90::FenceAccumulators(o_);
    sm90::FenceAccumulators(l_);
    sm90::WgmmaFence();
    IssueValues();
    sm90::WgmmaWait<0>();
    sm90::FenceAccumulators(o_);
    sm90::FenceAccumulators(l_);
    ReleaseValues();
  }

  // ---- Softmax

  __device__ void Softmax(int begin) {
    if (IsHidden(begin)) {
      HideKeys(begin);
    } else {
      CheckScores(begin);
    }
    Exponentials();
    ++tiles_;
  }

  // For tiles that all rows see in full. The bucket of a block is 0 if its largest score is below
  // the threshold and, in the first block of a split, above minus the threshold: one score above it
  // is enough.
  __device__ void CheckScores(int begin) {
    // As integers, positive floats are ordered like floats and negative ones are negative. Four
    // maxima, so that none waits for the one before.
    int high[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) high[i] = static_cast<int>(FloatBits(s_[i]));
#pragma unroll
    for (int i = 4; i < kScores; i += 2) {
      high[i / 2 % 4] = __vimax3_s32(high[i / 2 % 4], static_cast<int>(FloatBits(s_[i])),
                                     static_cast<int>(FloatBits(s_[i + 1])));
    }
    const int highest = max(max(high[0], high[1]), max(high[2], high[3]));
    wild_ = wild_ || highest >= static_cast<int>(FloatBits(p_.scale.threshold));
    if (begin % kSplitKeys == 0 || begin == all_.first) {
      wild_ = wild_ || !(s_[0] > -p_.scale.threshold) || !(s_[2] > -p_.scale.threshold);
    }
  }

  // Makes scores of keys that their rows don't see -infinity; all others must be below the
  // threshold. NaN is passed over: it makes its row NaN on any path.
  __device__ void HideKeys(int begin) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int key = begin + i / 4 * 8 + lane_ % 4 * 2 + i % 2;
      const KeyRange& seen = row_keys_[i / 2 % 2];
      const bool is_visible =
          static_cast<unsigned>(key - seen.first) <= static_cast<unsigned>(seen.last - seen.first);
      largest = fmaxf(largest, is_visible ? fabsf(s_[i]) : 0.0f);
      s_[i] = is_visible ? s_[i] : BitsFloat(0xff800000u);
    }
    wild_ = wild_ || !(largest < p_.scale.threshold);
  }

  // GridExp2(GridPoint(score)) before its rounding to bf16, with bucket 0.
  __device__ float Exponential(float score) const {
    return sm90::FlushingExp2(ieee::Sub(ieee::Fma(score, p_.scale.c, kGridOffset), kGridOffset));
  }

  // The scores' accumulators become fragments of wgmma's A.
  __device__ void Exponentials() {
#pragma unroll
    for (int step = 0; step < kValueSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int score = 8 * step + 2 * i;
        probability_[step][i] =
            sm90::RoundToBf16Pair(Exponential(s_[score]), Exponential(s_[score + 1]));
      }
    }
  }

  // ---- Values that a row must not see

  // In a tile with hidden keys: values that no row sees become zeros, and of the others those that
  // some row does not see must be finite, as they meet its probability of 0.
  __device__ void PrepareValues(int begin) {
    WaitForValues();
    constexpr int kRowChunks = Config::kHeadDim / kKvChunkDims;
    const uint32_t values = at_.Values(values_cursor_.slot);
    bool unsafe = false;
    for (int i = static_cast<int>(threadIdx.x); i < Config::kTileKeys * kRowChunks;
         i += Config::kConsumers) {
      const int row = i / kRowChunks, key = begin + row;
      if (all_.Meets(key, key + 1)) continue;
      const uint32_t chunk = values + KvChunkOffset(Config::kHeadDim, row, i % kRowChunks);
      auto* at = static_cast<uint4*>(__cvta_shared_to_generic(chunk));
      if (!any_.Meets(key, key + 1)) {
        *at = uint4{0, 0, 0, 0};
      } else {
        unsafe = unsafe || HasNonFinite(*at);
      }
    }
    sm90::FenceAsyncProxy();
    if (sm90::SyncNamedAny(kValuesBarrier, Config::kConsumers, unsafe)) wild_ = true;
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

  // ---- Merge and results

  // The split's output joins that of the splits before. Rows without a key in a split add +0.
  __device__ void EndSplit() {
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      float& merged = merged_[i * Config::kConsumers];
      merged = is_merged_ ? ieee::Add(merged, o_[i]) : o_[i];
    }
    for (int half = 0; half < 2; ++half) {
      const float l = l_[2 * half];
      merged_l_[half] = is_merged_ ? ieee::Add(merged_l_[half], l) : l;
    }
    is_merged_ = true;
    is_fresh_ = true;
  }

  __device__ void Finish(const PrefillWork& work) {
    const AttentionTile& tile = work.tile;
    const int rows = min(tile.rows - first_row_, 16);  // of this warp
    if (__any_sync(0xffffffffu, wild_)) {
      if (lane_ == 0 && rows > 0) HandOver(work, rows);
      return;
    }
    if (is_merged_) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) {
        o_[i] = ieee::Add(merged_[i * Config::kConsumers], o_[i]);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (Row(half) >= tile.rows) continue;
      const float l = l_[2 * half];
      const float inverse = ieee::Div(1.0f, is_merged_ ? ieee::Add(merged_l_[half], l) : l);
      Bf16* out = p_.out + p_.QueryOffset(tile, tile.packed + Row(half), work.kv_head);
#pragma unroll
      for (int j = 0; j < Config::kHeadDim / 8; ++j) {
        const float* o = &o_[4 * j + 2 * half];
        *reinterpret_cast<uint32_t*>(out + 8 * j + lane_ % 4 * 2) =
            sm90::RoundToBf16Pair(ieee::Mul(o[0], inverse), ieee::Mul(o[1], inverse));
      }
    }
  }

  // Leaves this warp's rows to the split kernel.
  __device__ void HandOver(const PrefillWork& work, int rows) const {
    RedoUnit unit = {work.tile, work.kv_head};
    unit.tile.packed += first_row_;
    unit.tile.rows = rows;
    p_.redo[atomicAdd(&p_.counters->redo_units, 1u)] = unit;
  }

  const AttentionParams& p_;
  const PrefillAddresses<Config>& at_;
  const int warpgroup_;
  const int first_row_;  // of this warp, in the tile
  const int lane_;

  KeyRange any_, all_;    // keys that some row, that all rows of the tile see
  KeyRange row_keys_[2];  // of this thread's rows
  bool wild_;             // the fast path is not right for one of this thread's rows
  bool is_fresh_;         // o and l hold nothing of the split yet
  bool is_merged_;        // merged holds earlier splits
  uint32_t query_parity_ = 0;
  typename Config::Cursor keys_cursor_, values_cursor_;

  float s_[kScores];
  uint32_t probability_[kValueSteps][4];
  float o_[kOutputs] = {};
  float l_[4] = {};
  float merged_l_[2];
  float* merged_;  // [kOutputs], every kConsumers floats
  unsigned tiles_ = 0;
};

// ---- The kernel

template <class Config>
__device__ void InitPrefillBarriers(const PrefillAddresses<Config>& at) {
  constexpr int kConsumerWarps = Config::kConsumers / 32;
  constexpr int kQueryWarps = Config::kQueryThreads / 32;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < Config::kStages) {
    sm90::InitBarrier(at.keys_full + 8 * thread, 1);
    sm90::InitBarrier(at.keys_empty + 8 * thread, kConsumerWarps);
    sm90::InitBarrier(at.values_full + 8 * thread, 1);
    sm90::InitBarrier(at.values_empty + 8 * thread, kConsumerWarps);
    sm90::FenceBarrierInit();
  }
  if (thread >= 32 && thread < 32 + PrefillShared<Config>::kWorkSlots) {
    sm90::InitBarrier(at.work_full + 8 * (thread - 32), 1);
    sm90::InitBarrier(at.work_empty + 8 * (thread - 32), kConsumerWarps + kQueryWarps + 1);
    sm90::FenceBarrierInit();
  }
  if (thread == 64) {
    sm90::InitBarrier(at.query_full, kQueryWarps);
    sm90::InitBarrier(at.query_empty, kConsumerWarps);
    sm90::FenceBarrierInit();
  }
  __syncthreads();
}

template <class Config>
__device__ void ConsumePrefill(const AttentionParams& p, PrefillShared<Config>& shared,
                               const PrefillAddresses<Config>& at, int warp) {
  PrefillConsumer<Config> consumer(p, shared, at, warp);
  SlotCursor<PrefillShared<Config>::kWorkSlots> cursor;
  for (;; cursor.Advance()) {
    sm90::Wait(at.work_full + 8 * cursor.slot, cursor.parity);
    const PrefillWork& work = shared.work[cursor.slot];
    if (work.tile.rows == 0) break;
    consumer.Attend(work);
    __syncwarp();
    if (threadIdx.x % 32 == 0) sm90::Arrive(at.work_empty + 8 * cursor.slot);
  }
  if (threadIdx.x == 0) consumer.Count();
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    AttentionPrefillKernel(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<PrefillShared<Config>*>(memory);
  const PrefillAddresses<Config> at(sm90::OpaqueSharedAddress(memory));
  const int warp = sm90::UniformWarpIndex();
  for (int i = static_cast<int>(threadIdx.x); i < PrefillShared<Config>::kOnePairs;
       i += Config::kThreads) {
    shared.ones[i] = 0x3f803f80u;
  }
  sm90::FenceAsyncProxy();
  InitPrefillBarriers(at);
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  if (warp < Config::kConsumers / 32) {
    sm90::RaiseRegisters<Config::kConsumerRegisters>();
    ConsumePrefill(p, shared, at, warp);
  } else {
    sm90::LowerRegisters<Config::kProducerRegisters>();
    if (warp == Config::kKeysWarp) {
      PrefillKeysWarp<Config>(p, shared, at).Run();
    } else if (warp == Config::kValuesWarp) {
      RunPrefillValuesWarp(p, shared, at);
    } else {
      RunPrefillQueryWarps(p, shared, at,
                           static_cast<int>(threadIdx.x) - 32 * Config::kFirstQueryWarp);
    }
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CUH_
