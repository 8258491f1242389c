#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_RELAY_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_RELAY_CUH_

// A split that a cluster of CTAs shares: output, l and buckets go from one CTA to the next.

#include "kernels/cuda/attention_split_steps.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/cluster_store.h"
#include "kernels/cuda/sm90/named_barrier.h"

namespace isobit::cuda {

// A warp that adds its part of a shared split.
template <class Config>
class SplitRelay : protected SplitStepper<Config> {
  using Base = SplitStepper<Config>;

 public:
  using Base::Base;

 protected:
  using Base::AddPair, Base::AddToSum, Base::AllSee, Base::ComputeScores, Base::HasPairs,
      Base::IsWild, Base::kBarrier, Base::kChunkGroups, Base::LoadProbabilities, Base::LoadQueries,
      Base::LoadValues, Base::LookAtBuckets, Base::OwnChunk, Base::Release, Base::Step,
      Base::StoreProbabilities;
  using Base::at_, Base::buffer_, Base::exact_, Base::keys_cursor_, Base::lane_, Base::shared_,
      Base::state_, Base::steps_, Base::values_cursor_, Base::warp_;

  using typename Base::Scores;

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

 private:
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
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_RELAY_CUH_
