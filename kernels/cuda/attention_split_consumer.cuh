#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CONSUMER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CONSUMER_CUH_

// What the computing warps of the split kernel do with a unit of work. attention_split.cuh says
// what the kernel is.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/attention_split_mail.cuh"
#include "kernels/cuda/attention_split_merge.cuh"
#include "kernels/cuda/attention_split_producer.cuh"
#include "kernels/cuda/attention_split_state.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/cluster_store.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/cuda/sm90/exp2.h"
#include "kernels/cuda/sm90/load_matrix.h"
#include "kernels/cuda/sm90/mma.h"
#include "kernels/cuda/sm90/named_barrier.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/grid_exp.h"

namespace isobit::cuda {

// Whether a pair of bf16 holds an infinity or a NaN.
__device__ inline bool HasNonFinite(uint32_t pair) {
  return (pair & 0x7f80u) == 0x7f80u || (pair & 0x7f800000u) == 0x7f800000u;
}

// Ones for those of two neighbouring keys, `key` in the low half, that lie in the range.
__device__ inline uint32_t PairMask(KeyRange keys, int key) {
  return (keys.Meets(key, key + 1) ? 0xffffu : 0u) |
         (keys.Meets(key + 1, key + 2) ? 0xffff0000u : 0u);
}

// One warp. A lane holds two of the 16 rows, lane / 4 and the one 8 further on (half 0 and 1).
template <class Config>
class SplitConsumer {
 public:
  static constexpr int kBarrier = 1;  // of all consumers

  __device__ SplitConsumer(const AttentionParams& p, SplitShared<Config>& shared,
                           const SplitAddresses<Config>& at, int warp)
      : p_(p),
        shared_(shared),
        at_(at),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32),
        quad_lane_(lane_ % 4) {}

  // Waits for the kernels in front of this one before it reads queries.
  __device__ void Attend(const SplitWork& work) {
    tile_ = work.tile;
    kv_head_ = work.kv_head;
    any_ = tile_.KeysOfAny(p_.group, p_.window);
    all_ = tile_.KeysOfAll(p_.group, p_.window);
    rows_ = LaneRows(tile_, p_.group, p_.window);
    merged_.empty[0] = merged_.empty[1] = true;
    sm90::WaitForPriorKernels();
    if constexpr (!Config::kShared) LoadQueries();
    // Of a unit that is shared the compiler is told that it is one split.
    const int end_split = Config::kShared ? work.first_split + 1 : work.end_split;
    for (split_ = work.first_split; split_ < end_split; ++split_) {
      BeginSplit();
      const StepWalk<Config> walk = {work.KeysOf(split_, any_)};
      if constexpr (Config::kShared) {
        AddPart(work, walk);
        if (work.sends) return;
      } else {
        AddSteps(walk);
      }
      if constexpr (!Config::kShared) Merge(split_);
    }
    if (work.sends_mail || work.collects_mail) return FinishWithMail(work);
    if constexpr (Config::kShared) merged_.Take(state_);
    if (Config::kShared || work.splits == 1) {
      StoreOutput();
    } else {
      StorePartial(SplitPartial(p_, work, work.first_split));
    }
  }

  // Adds what was done to the counters. By one thread of the CTA.
  __device__ void Count() const {
    using Counter = unsigned long long;
    if (steps_ != 0) atomicAdd(&p_.counters->tiles, Counter{steps_});
    if (exact_steps_ != 0) atomicAdd(&p_.counters->tiles_exact, Counter{exact_steps_});
  }

 private:
  using Scores = float[2][4];  // two n8 tiles of 16 rows

  static __device__ int Row(int half) { return LaneRows::Index(half); }
  __device__ int Pair(int i) const { return warp_ + Config::kWarps * i; }
  __device__ bool HasPairs() const { return warp_ < Config::kPairs; }

  // The tile's queries, zeros past its last row, to registers or to shared memory.
  __device__ void LoadQueries() {
    if constexpr (Config::kQueriesInShared) {
      // Scores of the tile before were computed before a barrier that is passed.
      constexpr int kRowPairs = Config::kHeadDim / 2;
      for (int i = static_cast<int>(threadIdx.x); i < kSplitTileRows * kRowPairs;
           i += Config::kConsumers) {
        const int row = i / kRowPairs, pair = i % kRowPairs;
        *reinterpret_cast<uint32_t*>(&shared_.query[row][2 * pair]) =
            row < tile_.rows ? QueryRow(row)[pair] : 0;
      }
      sm90::SyncNamed(kBarrier, Config::kConsumers);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool present = Row(half) < tile_.rows;
        const uint32_t* from = QueryRow(present ? Row(half) : 0) + quad_lane_;
#pragma unroll
        for (int i = 0; i < Config::kPairs; ++i) {
          query_[i][half] = present ? from[8 * i] : 0;
          query_[i][2 + half] = present ? from[8 * i + 4] : 0;
        }
      }
    }
  }
  // A row of the tile, two elements a word.
  __device__ const uint32_t* QueryRow(int row) const {
    return reinterpret_cast<const uint32_t*>(p_.q +
                                             p_.QueryOffset(tile_, tile_.packed + row, kv_head_));
  }
  // The fragment of 16 dimensions, for mma.sync.
  __device__ void Query(int i, uint32_t (&q)[4]) const {
    if constexpr (Config::kQueriesInShared) {
      constexpr int kStride = SplitShared<Config>::kQueryStride;
      sm90::LoadMatrices(q, at_.query + FragmentOffset(kStride, 16 * i));
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) q[e] = query_[i][e];
    }
  }
  // Where this lane's row of a 16 x 16 fragment of A begins in a matrix in shared memory, in bytes.
  __device__ int FragmentOffset(int stride, int column) const {
    const int row = lane_ % 8 + lane_ / 8 % 2 * 8;
    return (row * stride + column + lane_ / 16 * 8) * static_cast<int>(sizeof(Bf16));
  }

  __device__ void BeginSplit() {
    exact_ = false;
    state_.Fill(0.0f);
  }

  // ---- A step

  // Where the chunks of a step are in the rings.
  struct Slots {
    typename Config::Cursor keys, values;  // of the first chunk there is
    bool has_chunk[2];

    __device__ bool Has(int chunk) const { return chunk == 0 ? has_chunk[0] : has_chunk[1]; }
    __device__ typename Config::Cursor Keys(int chunk) const { return keys.After(IndexOf(chunk)); }
    __device__ typename Config::Cursor Values(int chunk) const {
      return values.After(IndexOf(chunk));
    }
    __device__ int IndexOf(int chunk) const { return chunk == 1 && has_chunk[0] ? 1 : 0; }
  };
  static_assert(Config::kChunksPerStep == 2);

  __device__ Slots TakeSlots(const StepWalk<Config>& walk, int step) {
    const Slots slots = {
        keys_cursor_, values_cursor_, {walk.HasChunk(step, 0), walk.HasChunk(step, 1)}};
    const int chunks = slots.has_chunk[0] && slots.has_chunk[1] ? 2 : 1;
    keys_cursor_ = keys_cursor_.After(chunks);
    values_cursor_ = values_cursor_.After(chunks);
    return slots;
  }

  __device__ void Release(const SplitRing<Config>& ring, const typename Config::Cursor& at) const {
    if (lane_ < Config::kReleasingLanes) sm90::Arrive(ring.Empty(at.slot));
  }

  __device__ int OwnChunk() const { return warp_ / (Config::kWarps / 2); }

  __device__ void Step(const StepWalk<Config>& walk, int step) {
    const Slots slots = TakeSlots(walk, step);
    const bool has_keys = slots.Has(OwnChunk());
    Scores s;
    bool wild = false;
    if (has_keys) {
      const typename Config::Cursor at = slots.Keys(OwnChunk());
      sm90::Wait(at_.keys.Full(at.slot), at.parity);
      ComputeScores(at_.keys.Slot(at.slot), s);
      __syncwarp();
      Release(at_.keys, at);
      HideKeys(step + 16 * warp_, s);
      wild = IsWild(s);
      StoreProbabilities(s, buffer_, 0.0f, 0.0f);
    }
    const bool exact = sm90::SyncNamedAny(kBarrier, Config::kConsumers, wild || exact_);
    // A slot that this warp has no use for. Not before the barrier: others may still have to give
    // it back from an earlier round.
    if (slots.Has(OwnChunk() ^ 1)) Release(at_.keys, slots.Keys(OwnChunk() ^ 1));
    if (exact) ShareScores(has_keys, s);
#pragma unroll 1
    for (int chunk = 0; chunk < 2; ++chunk) {
      if (!slots.Has(chunk)) continue;
      if (exact) UseBucketsOf(chunk, step, s);
      AddChunk(slots.Values(chunk), step, chunk);
    }
    if (exact) LookAtBuckets();
    buffer_ ^= 1;
    ++steps_;
    exact_steps_ += exact ? 1 : 0;
  }

  // ---- Steps in a row

  __device__ void AddSteps(const StepWalk<Config>& walk) {
    bool calm = true;  // no score has asked for the exact path yet
    for (int step = walk.Begin(); walk.Has(step); step += Config::kStepKeys) {
      if (calm) step = AddWholeSteps(walk, step, calm);
      if (!walk.Has(step)) return;
      Step(walk, step);
    }
  }

  // Adds steps that all rows see in full, from `step` on. Scores of a step are computed while the
  // one before is added. Returns the first step that it has not added, because rows don't see it in
  // full or because its scores ask for the exact path: then it is not calm.
  __device__ int AddWholeSteps(const StepWalk<Config>& walk, int step, bool& calm) {
    const int end = (min(all_.last, walk.keys.last) + 1) & -Config::kStepKeys;
    if (step < max(all_.first, walk.keys.first) || step >= end) return step;
    calm = ScoreFirst();
    if (!calm) return step;
    for (; step + Config::kStepKeys < end; step += Config::kStepKeys) {
      if (!AddAndScoreNext()) {
        calm = false;
        return step + Config::kStepKeys;
      }
    }
    AddLast();
    return step + Config::kStepKeys;
  }

  // Of the step at the cursor of keys: probabilities to this step's buffer.
  __device__ bool ScoreFirst() {
    const typename Config::Cursor keys = keys_cursor_.After(OwnChunk());
    Scores s;
    sm90::Wait(at_.keys.Full(keys.slot), keys.parity);
    ComputeScores(at_.keys.Slot(keys.slot), s);
    StoreProbabilities(s, buffer_, 0.0f, 0.0f);
    return ShareCalmScores(IsWild(s));
  }

  // Adds the step at the cursor of values, while the scores of the next are computed.
  __device__ bool AddAndScoreNext() {
    const typename Config::Cursor keys = keys_cursor_.After(OwnChunk());
    const typename Config::Cursor first = values_cursor_, second = values_cursor_.After(1);
    Scores s;
    sm90::Wait(at_.keys.Full(keys.slot), keys.parity);
    if (HasPairs()) {
      sm90::Wait(at_.values.Full(first.slot), first.parity);
      sm90::Wait(at_.values.Full(second.slot), second.parity);
      // No branch in between: instructions of the two mix.
      ComputeScores(at_.keys.Slot(keys.slot), s);
      AddWholeChunk(at_.values.Slot(first.slot), 0);
      AddWholeChunk(at_.values.Slot(second.slot), 1);
      StoreProbabilities(s, buffer_ ^ 1, 0.0f, 0.0f);
    } else {
      ComputeScores(at_.keys.Slot(keys.slot), s);
      StoreProbabilities(s, buffer_ ^ 1, 0.0f, 0.0f);
    }
    EndWholeStep();
    return ShareCalmScores(IsWild(s));
  }

  __device__ void AddLast() {
    if (HasPairs()) {
#pragma unroll 1
      for (int chunk = 0; chunk < 2; ++chunk) {
        const typename Config::Cursor at = values_cursor_.After(chunk);
        sm90::Wait(at_.values.Full(at.slot), at.parity);
        AddWholeChunk(at_.values.Slot(at.slot), chunk);
      }
    }
    EndWholeStep();
  }

  __device__ void EndWholeStep() {
    __syncwarp();
    for (int chunk = 0; chunk < 2; ++chunk) Release(at_.values, values_cursor_.After(chunk));
    values_cursor_ = values_cursor_.After(2);
    buffer_ ^= 1;
    ++steps_;
  }

  // True if no score of any warp asks for the exact path. Then the keys are given back.
  __device__ bool ShareCalmScores(bool wild) {
    if (sm90::SyncNamedAny(kBarrier, Config::kConsumers, wild)) return false;
    for (int chunk = 0; chunk < 2; ++chunk) Release(at_.keys, keys_cursor_.After(chunk));
    keys_cursor_ = keys_cursor_.After(2);
    return true;
  }

  __device__ void LookAtBuckets() {
    exact_ = __any_sync(0xffffffffu, state_.bucket[0] != 0.0f || state_.bucket[1] != 0.0f);
  }

  // ---- A split that a cluster shares

  // Adds this CTA's part of a split to what those in front of it hand on, and hands the sum on to
  // the one behind it. Two steps at a time, if all rows see them in full, have all their
  // probabilities before that arrives.
  __device__ void AddPart(const SplitWork& work, const StepWalk<Config>& walk) {
    for (int begin = walk.Begin(); walk.Has(begin); begin += 2 * Config::kStepKeys) {
      const bool receives = work.receives && begin == walk.Begin();
      const bool sends = work.sends && !walk.Has(begin + 2 * Config::kStepKeys);
      // Others may still read the buffers of the last two steps.
      if (begin != walk.Begin()) sm90::SyncNamed(kBarrier, Config::kConsumers);
      LoadQueries();  // each time, so that their registers are free in between
      if (AllSee(begin, begin + 2 * Config::kStepKeys) && ScoreAhead()) {
        if (AddAhead(receives, sends, walk.Has(begin + 2 * Config::kStepKeys))) continue;
      } else if (receives) {
        TakeOver();
      }
#pragma unroll 1
      for (int step = begin; step < begin + 2 * Config::kStepKeys && walk.Has(step);
           step += Config::kStepKeys) {
        Step(walk, step);
      }
      if (sends) HandOn();
    }
  }

  // Whether all rows see all of these keys.
  __device__ bool AllSee(int begin, int end) const {
    return all_.first <= begin && end <= all_.last + 1;
  }

  // Both buffers of probabilities, for buckets of 0. False if scores ask for the exact path. No
  // slot is given back: Step starts from the beginning if need be.
  __device__ bool ScoreAhead() {
    const typename Config::Cursor first = keys_cursor_.After(OwnChunk());
    const typename Config::Cursor second = keys_cursor_.After(2 + OwnChunk());
    sm90::Wait(at_.keys.Full(first.slot), first.parity);
    sm90::Wait(at_.keys.Full(second.slot), second.parity);
    // No branch in between: instructions of the two mix.
    Scores s[2];
    ComputeScores(at_.keys.Slot(first.slot), s[0]);
    ComputeScores(at_.keys.Slot(second.slot), s[1]);
    StoreProbabilities(s[0], buffer_, 0.0f, 0.0f);
    StoreProbabilities(s[1], buffer_ ^ 1, 0.0f, 0.0f);
    return !sm90::SyncNamedAny(kBarrier, Config::kConsumers, IsWild(s[0]) || IsWild(s[1]));
  }

  // Adds the four chunks of ScoreAhead; fragments of a chunk are fetched while the one before is
  // added, those of the first before the state of the CTA in front arrives. False if the state
  // asks for the exact path; then nothing was added.
  __device__ bool AddAhead(bool receives, bool sends, bool more) {
    static_assert(Config::kOwnPairs == 1);
    constexpr int kChunks = 2 * Config::kChunksPerStep;
    uint32_t p[kChunkGroups][4], v[kChunkGroups][4];
    const auto load = [&](int chunk, int g) {
      const int in_step = chunk % Config::kChunksPerStep * kChunkGroups;
      LoadProbabilities(buffer_ ^ (chunk / Config::kChunksPerStep), in_step + g, p[g]);
      LoadValues(at_.values.Slot(values_cursor_.After(chunk).slot), g, 0, v[g]);
    };
    if (HasPairs()) {
#pragma unroll 1
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const typename Config::Cursor at = values_cursor_.After(chunk);
        sm90::Wait(at_.values.Full(at.slot), at.parity);
      }
#pragma unroll
      for (int g = 0; g < kChunkGroups; ++g) load(0, g);
    }
    if (receives) TakeOver();
    if (exact_) return false;
    if (HasPairs()) {
#pragma unroll 1
      for (int chunk = 1; chunk <= kChunks; ++chunk) {
        const int next = min(chunk, kChunks - 1);  // the last one twice, for nothing
#pragma unroll
        for (int g = 0; g < kChunkGroups; ++g) {
          AddToSum(p[g]);
          AddPair(p[g], v[g], state_.o[0]);
          load(next, g);
        }
      }
    }
    if (sends) HandOn();
    steps_ += 2;
    if (more) GiveBackAhead(kChunks);  // else nobody asks for them
    return true;
  }

  __device__ void GiveBackAhead(int chunks) {
    __syncwarp();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      Release(at_.keys, keys_cursor_.After(chunk));
      Release(at_.values, values_cursor_.After(chunk));
    }
    keys_cursor_ = keys_cursor_.After(chunks);
    values_cursor_ = values_cursor_.After(chunks);
  }

  __device__ uint32_t RelayAddress(int vector) const {
    const int index = (warp_ * SplitShared<Config>::kRelayVectors + vector) * 32 + lane_;
    return at_.relay + index * static_cast<int>(sizeof(float4));
  }

  // Hands the state to the same warp of the next CTA of the cluster. All columns of the product
  // with ones are equal, so one of each row's l is enough.
  __device__ void HandOn() const {
    const uint32_t next = sm90::ClusterRank() + 1;
    const uint32_t full = sm90::ClusterAddress(at_.relay_full + 8 * warp_, next);
    const uint32_t to = sm90::ClusterAddress(RelayAddress(0), next);
    constexpr int kVectorBytes = 32 * sizeof(float4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* o = state_.o[0][i];
      sm90::StoreToCluster(to + i * kVectorBytes, float4{o[0], o[1], o[2], o[3]}, full);
    }
    sm90::StoreToCluster(to + 2 * kVectorBytes,
                         float4{state_.l[0], state_.l[2], state_.bucket[0], state_.bucket[1]},
                         full);
  }

  __device__ void TakeOver() {
    constexpr int kVectors = SplitShared<Config>::kRelayVectors;
    const uint32_t full = at_.relay_full + 8 * warp_;
    if (lane_ == 0) sm90::ArriveExpectBytes(full, kVectors * 32 * sizeof(float4));
    sm90::Wait(full, 0);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float4 o = shared_.relay[warp_][i][lane_];
      state_.o[0][i][0] = o.x;
      state_.o[0][i][1] = o.y;
      state_.o[0][i][2] = o.z;
      state_.o[0][i][3] = o.w;
    }
    const float4 rest = shared_.relay[warp_][kVectors - 1][lane_];
    state_.l[0] = state_.l[1] = rest.x;
    state_.l[2] = state_.l[3] = rest.y;
    state_.bucket[0] = rest.z;
    state_.bucket[1] = rest.w;
    LookAtBuckets();
  }

  // s = queries times this warp's 16 keys of the chunk in shared memory at `keys`.
  __device__ void ComputeScores(uint32_t keys, Scores& s) const {
    // Fragments are loaded some ahead of their use.
    constexpr int kAhead = Config::kPairs < 8 ? Config::kPairs : 8;
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = 0.0f;
    const ChunkPairs chunks = OwnKeys(keys);
#pragma unroll
    for (int begin = 0; begin < Config::kPairs; begin += kAhead) {
      uint32_t k[kAhead][4];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sm90::LoadMatrices(k[i], chunks.At(begin + i));
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        uint32_t q[4];
        Query(begin + i, q);
        const uint32_t first[2] = {k[i][0], k[i][1]}, second[2] = {k[i][2], k[i][3]};
        sm90::MmaBf16(s[0], q, first);
        sm90::MmaBf16(s[1], q, second);
      }
    }
    if constexpr (Config::kCapsScores) {
#pragma unroll
      for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = CapScore(s[i / 4][i % 4], p_.scale);
    }
  }

  // Addresses of the chunks 2i + odd of a row of a tile. Chunks are permuted by an exclusive or
  // with the row, so another i is another exclusive or, in one instruction.
  struct ChunkPairs {
    static constexpr int kWholeBoxPairs = Config::kHeadDim / kKvBoxDims * 4;

    __device__ ChunkPairs(uint32_t tile, int row, int odd)
        : whole(tile + KvChunkOffset(Config::kHeadDim, row, odd)),
          rest(tile + KvChunkOffset(Config::kHeadDim, row, 2 * kWholeBoxPairs + odd)) {}
    __device__ uint32_t At(int i) const {
      if (i < kWholeBoxPairs) return (whole ^ (i % 4 * 32)) + i / 4 * kKvAtomBytes;
      return rest ^ ((i - kWholeBoxPairs) * 32);
    }
    uint32_t whole, rest;  // for i = 0, and for the first i in the box that is not whole
  };

  // Of this warp's keys in a chunk. Matrices of the load: (keys 0..7, chunk 2i), (0..7, 2i + 1),
  // (8..15, 2i), (8..15, 2i + 1).
  __device__ ChunkPairs OwnKeys(uint32_t chunk) const {
    const int row = warp_ % 4 * 16 + lane_ % 8 + lane_ / 16 * 8;
    return ChunkPairs(chunk, row, lane_ / 8 % 2);
  }

  // Makes scores of keys that their rows don't see -infinity. key: the warp's first.
  __device__ void HideKeys(int key, Scores& s) const {
    if (AllSee(key, key + 16)) return;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = key + i / 4 * 8 + 2 * quad_lane_ + i % 2;
      if (!rows_.keys[i / 2 % 2].Meets(at, at + 1)) s[i / 4][i % 4] = kHidden;
    }
  }
  // Whether a score that is not hidden is not below the threshold. NaN is passed over, as it makes
  // its row NaN on any path.
  __device__ bool IsWild(const Scores& s) const {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float score = s[i / 4][i % 4];
      largest = fmaxf(largest, score == kHidden ? 0.0f : fabsf(score));
    }
    return largest >= p_.scale.threshold;
  }
  static constexpr float kHidden = -__builtin_huge_valf();

  // GridExp2(GridPoint(score)) before its rounding to bf16.
  __device__ float Exponential(float score, float offset) const {
    return sm90::FlushingExp2(ieee::Sub(ieee::Fma(score, p_.scale.c, offset), kGridOffset));
  }

  // The warp's probabilities to the step's buffer, with the buckets of a lane's two rows.
  __device__ void StoreProbabilities(const Scores& s, int buffer, float bucket0, float bucket1) {
    const float offset[2] = {ieee::Sub(kGridOffset, bucket0), ieee::Sub(kGridOffset, bucket1)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = i / 2, half = i % 2;
      const uint32_t pair = sm90::RoundToBf16Pair(Exponential(s[tile][2 * half], offset[half]),
                                                  Exponential(s[tile][2 * half + 1], offset[half]));
      Bf16* to = &shared_.probability[buffer][Row(half)][16 * warp_ + 8 * tile + 2 * quad_lane_];
      *reinterpret_cast<uint32_t*>(to) = pair;
    }
  }

  // ---- Output: o and l += probabilities times values

  __device__ void AddChunk(const typename Config::Cursor& at, int step, int chunk) {
    const int begin = step + chunk * Config::kChunkKeys;
    if (HasPairs()) {
      sm90::Wait(at_.values.Full(at.slot), at.parity);
      if (AllSee(begin, begin + Config::kChunkKeys)) {
        AddWholeChunk(at_.values.Slot(at.slot), chunk);
      } else {
        AddHiddenChunk(at_.values.Slot(at.slot), begin, chunk);
      }
      __syncwarp();
    }
    Release(at_.values, at);
  }

  static constexpr int kChunkGroups = Config::kChunkKeys / kDotTerms;

  // For chunks that all rows see in full. Fragments are loaded ahead of their use.
  __device__ void AddWholeChunk(uint32_t values, int chunk) {
    uint32_t p[kChunkGroups][4];
#pragma unroll
    for (int g = 0; g < kChunkGroups; ++g)
      LoadProbabilities(buffer_, chunk * kChunkGroups + g, p[g]);
#pragma unroll
    for (int i = 0; i < Config::kOwnPairs; ++i) {
      if (Pair(i) >= Config::kPairs) break;
      uint32_t v[kChunkGroups][4];
#pragma unroll
      for (int g = 0; g < kChunkGroups; ++g) LoadValues(values, g, i, v[g]);
#pragma unroll
      for (int g = 0; g < kChunkGroups; ++g) {
        if (i == 0) AddToSum(p[g]);
        AddPair(p[g], v[g], state_.o[i]);
      }
    }
  }

  __device__ void AddToSum(const uint32_t (&p)[4]) {
    constexpr uint32_t kOnes[2] = {0x3f803f80u, 0x3f803f80u};
    sm90::MmaBf16(state_.l, p, kOnes);
  }

  // For chunks of which some row does not see some key.
  __device__ void AddHiddenChunk(uint32_t values, int begin, int chunk) {
#pragma unroll 1
    for (int g = 0; g < kChunkGroups; ++g) {
      const int key = begin + g * kDotTerms;
      if (!any_.Meets(key, key + kDotTerms)) continue;
      uint32_t p[4];
      LoadProbabilities(buffer_, chunk * kChunkGroups + g, p);
      AddToSum(p);
#pragma unroll
      for (int i = 0; i < Config::kOwnPairs; ++i) {
        if (Pair(i) >= Config::kPairs) break;
        uint32_t v[4];
        LoadValues(values, g, i, v);
        AddHiddenGroup(key, p, v, state_.o[i]);
      }
    }
  }

  // Values of group g of a chunk, the columns of own pair i. Matrices of the load: (keys 0..7,
  // columns 0..7), (8..15, 0..7), (0..7, 8..15), (8..15, 8..15).
  __device__ void LoadValues(uint32_t values, int g, int i, uint32_t (&v)[4]) const {
    constexpr int kGroupBytes = 2 * kDotTerms * Config::kHeadDim;
    const int row = lane_ % 8 + lane_ / 8 % 2 * 8;
    sm90::LoadMatricesTransposed(
        v,
        values + g * kGroupBytes + KvChunkOffset(Config::kHeadDim, row, 2 * Pair(i) + lane_ / 16));
  }

  __device__ void LoadProbabilities(int buffer, int group, uint32_t (&p)[4]) const {
    constexpr int kStride = SplitShared<Config>::kProbabilityStride;
    constexpr int kBufferBytes = kSplitTileRows * kStride * static_cast<int>(sizeof(Bf16));
    sm90::LoadMatrices(
        p, at_.probability + buffer * kBufferBytes + FragmentOffset(kStride, group * kDotTerms));
  }

  static __device__ void AddPair(const uint32_t (&p)[4], const uint32_t (&v)[4], float (&o)[2][4]) {
    const uint32_t first[2] = {v[0], v[1]}, second[2] = {v[2], v[3]};
    sm90::MmaBf16(o[0], p, first);
    sm90::MmaBf16(o[1], p, second);
  }

  // A group that not all rows see in full. Values count as 0 for rows that don't see their key. For
  // keys that no row sees that is a mask; for keys that some see, probability 0 does the same
  // unless the value is not finite.
  __device__ void AddHiddenGroup(int key, const uint32_t (&p)[4], const uint32_t (&v)[4],
                                 float (&o)[2][4]) const {
    uint32_t masked[4];
    bool unsafe = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = key + i % 2 * 8 + 2 * quad_lane_;
      masked[i] = v[i] & PairMask(any_, at);
      unsafe = unsafe || HasNonFinite(masked[i] & ~PairMask(all_, at));
    }
    if (!__any_sync(0xffffffffu, unsafe)) return AddPair(p, masked, o);
    AddRowByRow(key, p, v, o);
  }

  // The product once for each row, with the values that this row sees.
  __device__ void AddRowByRow(int key, const uint32_t (&p)[4], const uint32_t (&v)[4],
                              float (&o)[2][4]) const {
    const float before[2][4] = {{o[0][0], o[0][1], o[0][2], o[0][3]},
                                {o[1][0], o[1][1], o[1][2], o[1][3]}};
#pragma unroll 1
    for (int row = 0; row < tile_.rows; ++row) {
      const KeyRange seen = tile_.KeysOf(row, p_.group, p_.window);
      uint32_t masked[4];
      float product[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        masked[i] = v[i] & PairMask(seen, key + i % 2 * 8 + 2 * quad_lane_);
        product[0][i] = before[0][i];
        product[1][i] = before[1][i];
      }
      AddPair(p, masked, product);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (Row(e / 2) != row) continue;
        o[0][e] = product[0][e];
        o[1][e] = product[1][e];
      }
    }
  }

  // ---- The exact path: blocks of 64 as the contract has them

  __device__ void ShareScores(bool has_keys, const Scores& s) {
    if (has_keys) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        shared_.score[Row(i / 2 % 2)][16 * warp_ + i / 4 * 8 + 2 * quad_lane_ + i % 2] =
            s[i / 4][i % 4];
      }
    }
    sm90::SyncNamed(kBarrier, Config::kConsumers);
  }

  // Raises the buckets to the block's and replaces its probabilities.
  __device__ void UseBucketsOf(int chunk, int step, const Scores& s) {
    RaiseBuckets(step + chunk * Config::kChunkKeys, chunk);
    if (warp_ / (Config::kWarps / 2) == chunk)
      StoreProbabilities(s, buffer_, state_.bucket[0], state_.bucket[1]);
    sm90::SyncNamed(kBarrier, Config::kConsumers);
  }

  __device__ void RaiseBuckets(int block_begin, int chunk) {
    // The rows' maxima: two lanes a row. fmaxf passes over NaN.
    const float* scores = &shared_.score[lane_ / 2][chunk * kBlockKeys + lane_ % 2 * 32];
    float m = BitsFloat(0xff800000u);
#pragma unroll 4
    for (int i = 0; i < kBlockKeys / 2; ++i) m = fmaxf(m, scores[i]);
    m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float row_max = __shfl_sync(0xffffffffu, m, 2 * Row(half));
      RaiseBucketOfRow(half, row_max, block_begin);
    }
  }

  __device__ void RaiseBucketOfRow(int half, float m, int block_begin) {
    const KeyRange seen = rows_.keys[half].InSplit(split_);
    if (!seen.Meets(block_begin, block_begin + kBlockKeys)) return;
    const float bucket = Bucket(m, p_.scale.c, p_.scale.threshold);
    const bool first = seen.first / kBlockKeys == block_begin / kBlockKeys;
    if (first) {
      state_.bucket[half] = bucket;  // o and l are 0
    } else if (bucket > state_.bucket[half]) {
      state_.Raise(half, bucket);
    }
  }

  // ---- Results

  // Of a unit of one split, which may have been merged with nothing.
  __device__ void FinishWithMail(const SplitWork& work) {
    if (!HasPairs()) return;
    const SplitMailbox<Config> mailbox(p_, work, rows_, warp_);
    if (work.sends_mail) return mailbox.Send(state_);
    mailbox.Collect(merged_);
    Merge(work.first_split);
    StoreOutput();
    mailbox.Clear();
  }

  // MergeSplit of the split into what came before it.
  __device__ void Merge(int split) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (rows_.See(half, split)) merged_.Add(half, state_);
    }
  }

  __device__ void StoreOutput() const {
    if (!HasPairs()) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (Row(half) >= tile_.rows) continue;
      const float inverse = ieee::Div(1.0f, merged_.l[2 * half]);
      Bf16* out = p_.out + p_.QueryOffset(tile_, tile_.packed + Row(half), kv_head_);
#pragma unroll
      for (int i = 0; i < 2 * Config::kOwnPairs; ++i) {
        if (Pair(i / 2) >= Config::kPairs) break;
        const float* o = &merged_.o[i / 2][i % 2][2 * half];
        const int column = 16 * Pair(i / 2) + 8 * (i % 2) + 2 * quad_lane_;
        *reinterpret_cast<uint32_t*>(out + column) =
            sm90::RoundToBf16Pair(ieee::Mul(o[0], inverse), ieee::Mul(o[1], inverse));
      }
    }
  }

  __device__ void StorePartial(const SplitPartial& to) const {
    if (!HasPairs()) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = Row(half);
      if (row >= tile_.rows || merged_.empty[half]) continue;
      if (warp_ == 0 && quad_lane_ == 0) {
        to.l[row] = merged_.l[2 * half];
        to.bucket[row] = merged_.bucket[half];
      }
#pragma unroll
      for (int i = 0; i < 2 * Config::kOwnPairs; ++i) {
        if (Pair(i / 2) >= Config::kPairs) break;
        const float* o = &merged_.o[i / 2][i % 2][2 * half];
        const int column = 16 * Pair(i / 2) + 8 * (i % 2) + 2 * quad_lane_;
        *reinterpret_cast<float2*>(to.o + row * Config::kHeadDim + column) = float2{o[0], o[1]};
      }
    }
  }

  const AttentionParams& p_;
  SplitShared<Config>& shared_;
  const SplitAddresses<Config>& at_;
  const int warp_, lane_, quad_lane_;

  AttentionTile tile_;
  int kv_head_, split_;
  KeyRange any_, all_;  // keys that some row, that all rows of the tile see
  LaneRows rows_;
  uint32_t query_[Config::kQueriesInShared ? 1 : Config::kPairs][4];

  bool exact_;  // a bucket of the split is not 0
  SplitState<Config> state_;
  MergedState<Config> merged_;

  typename Config::Cursor keys_cursor_, values_cursor_;
  int buffer_ = 0;  // of the probabilities of this step
  unsigned steps_ = 0, exact_steps_ = 0;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CONSUMER_CUH_
