#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CONSUMER_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CONSUMER_CUH_

// What the computing warps of the split kernel do with a unit of work. attention_split.cuh says
// what the kernel is, attention_split_warp.cuh where its parts are.

#include "kernels/cuda/attention_split_mail.cuh"
#include "kernels/cuda/attention_split_merge.cuh"
#include "kernels/cuda/attention_split_relay.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

// A warp that attends to units of work.
template <class Config>
class SplitConsumer : private SplitRelay<Config> {
  using Base = SplitRelay<Config>;
  using Base::AddPart, Base::AddSteps, Base::BeginSplit, Base::HasPairs, Base::LoadQueries,
      Base::Pair, Base::Row;
  using Base::all_, Base::any_, Base::exact_steps_, Base::kv_head_, Base::p_, Base::quad_lane_,
      Base::rows_, Base::split_, Base::state_, Base::steps_, Base::tile_, Base::warp_;

 public:
  using Base::Base;

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

  MergedState<Config> merged_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CONSUMER_CUH_
