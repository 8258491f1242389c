#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_STEPS_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_STEPS_CUH_

// The steps of a split. One whose visible scores all lie below the threshold, in a split whose
// buckets are all 0, needs no maximum (the fast path); then, where all rows see all keys, the
// scores of a step are computed while the one before is added. Any other step follows the
// contract's blocks literally (the exact path).

#include "kernels/cuda/attention_split_sums.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/named_barrier.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

// A warp that adds the steps of a split.
template <class Config>
class SplitStepper : protected SplitAdder<Config> {
  using Base = SplitAdder<Config>;

 public:
  using Base::Base;

 protected:
  using Base::AddChunk, Base::AddWholeChunk, Base::ComputeScores, Base::HasPairs, Base::HideKeys,
      Base::IsWild, Base::kBarrier, Base::LookAtBuckets, Base::OwnChunk, Base::Release, Base::Row,
      Base::StoreProbabilities;
  using Base::all_, Base::at_, Base::buffer_, Base::exact_, Base::exact_steps_, Base::keys_cursor_,
      Base::lane_, Base::p_, Base::quad_lane_, Base::rows_, Base::shared_, Base::split_,
      Base::state_, Base::steps_, Base::values_cursor_, Base::warp_;

  using typename Base::Scores;

  __device__ void AddSteps(const StepWalk<Config>& walk) {
    bool calm = true;  // no score of a whole step has asked for the exact path yet
    for (int step = walk.Begin(); walk.Has(step); step += Config::kStepKeys) {
      // A step that rows see in part may have set buckets.
      if (calm && !exact_) step = AddWholeSteps(walk, step, calm);
      if (!walk.Has(step)) return;
      Step(walk, step);
    }
  }

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

 private:
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

  // ---- Steps in a row

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
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_STEPS_CUH_
