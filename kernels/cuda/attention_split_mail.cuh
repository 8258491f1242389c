#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_MAIL_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_MAIL_CUH_

// Where no CTA has a second unit, the results of a tile's splits go to the CTA with the last one,
// which has nothing else to do than to wait for them. It waits for units in front of its own only,
// so never for a CTA that starts later.
//
// Mail is 32 bytes from a lane to the same lane of the same warp of another CTA, through global
// memory: what both have of a row. There is no flag, so no fence either: a word that has not been
// written is kNoMailBits, a NaN that no arithmetic makes. The reader puts that back, for the next
// launch. Code is kept short, as it runs once a launch and from no cache.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_split_shared.cuh"
#include "kernels/cuda/attention_split_state.cuh"
#include "kernels/cuda/sm90/relaxed.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

// The mail of one lane, of a warp that has columns.
template <class Config>
class SplitMailbox {
 public:
  using State = SplitState<Config>;

  __device__ SplitMailbox(const AttentionParams& p, const SplitWork& work, const LaneRows& rows,
                          int warp)
      : rows_(rows),
        first_(work.tile_first_split),
        own_(work.first_split),
        stride_(int64_t{p.kv_heads()} * SplitMails(Config::kHeadDim)),
        mail_(p.mail + work.first_unit * stride_ +
              int64_t{work.kv_head} * SplitMails(Config::kHeadDim) + warp * kPairMails +
              static_cast<int>(threadIdx.x) % 32) {}

  // Sends the result of the unit's split.
  __device__ void Send(const State& own) const {
    SplitMail* to = Of(own_);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!HasMail(half, own_)) continue;
      const int e = 2 * half;
#pragma unroll
      for (int i = 0; i < Config::kOwnPairs; ++i) {
        const auto& o = own.o[i];
        SplitMail& mail = to[Index(half, i)];
        sm90::StoreRelaxed(&mail.o, float4{o[0][e], o[0][e + 1], o[1][e], o[1][e + 1]});
        sm90::StoreRelaxed(&mail.sums, float2{own.l[e], own.bucket[half]});
      }
    }
  }

  // Waits for the results of the splits in front of the unit's and merges them, a few at a time.
  __device__ void Collect(MergedState<Config>& merged) const {
    constexpr int kAtOnce = 4 / Config::kOwnPairs;
    merged.Clear();
#pragma unroll 1
    for (int first = first_; first < own_; first += kAtOnce) {
      State mail[kAtOnce];
      uint32_t largest;
      do {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) Read(first + i, mail[i]);
        largest = 0;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) largest = max(largest, LargestWord(mail[i]));
      } while (__any_sync(0xffffffffu, largest == kNoMailBits));
      Merge(first, mail, merged);
    }
  }

  // Makes the places of what was collected ready for the next launch.
  __device__ void Clear() const {
    const float none = BitsFloat(kNoMailBits);
#pragma unroll 1
    for (int split = first_; split < own_; ++split) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (!HasMail(half, split)) continue;
#pragma unroll
        for (int i = 0; i < Config::kOwnPairs; ++i) {
          SplitMail& mail = Of(split)[Index(half, i)];
          mail.o = float4{none, none, none, none};
          mail.sums = float2{none, none};
        }
      }
    }
  }

 private:
  static constexpr int kPairMails = SplitMails(16);  // of 16 columns

  // Writer and reader agree on it.
  __device__ bool HasMail(int half, int split) const {
    return rows_.Has(half) && rows_.See(half, split);
  }
  __device__ SplitMail* Of(int split) const { return mail_ + (split - first_) * stride_; }
  // Of an own pair of a row.
  static __device__ constexpr int Index(int half, int i) {
    return half * kPairMails / 2 + i * Config::kWarps * kPairMails;
  }

  // Reads what has been written by now. Rows without mail become -0, of bucket 0.
  __device__ void Read(int split, State& mail) const {
    const SplitMail* from = Of(split);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool has_mail = split < own_ && HasMail(half, split);
      const int e = 2 * half;
#pragma unroll
      for (int i = 0; i < Config::kOwnPairs; ++i) {
        float4 o = {-0.0f, -0.0f, -0.0f, -0.0f};
        if (has_mail) o = sm90::LoadRelaxed(&from[Index(half, i)].o);
        mail.o[i][0][e] = o.x;
        mail.o[i][0][e + 1] = o.y;
        mail.o[i][1][e] = o.z;
        mail.o[i][1][e + 1] = o.w;
      }
      float2 sums = {-0.0f, 0.0f};
      if (has_mail) sums = sm90::LoadRelaxed(&from[Index(half, 0)].sums);
      mail.l[e] = mail.l[e + 1] = sums.x;
      mail.bucket[half] = sums.y;
    }
  }

  // kNoMailBits if a word had not been written when it was read.
  static __device__ uint32_t LargestWord(const State& mail) {
    uint32_t largest = max(max(FloatBits(mail.l[0]), FloatBits(mail.l[2])),
                           max(FloatBits(mail.bucket[0]), FloatBits(mail.bucket[1])));
#pragma unroll
    for (int i = 0; i < 8 * Config::kOwnPairs; ++i) {
      largest = max(largest, FloatBits(mail.o[i / 8][i / 4 % 2][i % 4]));
    }
    return largest;
  }

  // Merges splits from `first` on.
  template <int kCount>
  __device__ void Merge(int first, State (&mail)[kCount], MergedState<Config>& merged) const {
    float buckets = fmaxf(fabsf(merged.bucket[0]), fabsf(merged.bucket[1]));
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      buckets = fmaxf(buckets, fmaxf(fabsf(mail[i].bucket[0]), fabsf(mail[i].bucket[1])));
    }
    if (__builtin_expect(__any_sync(0xffffffffu, buckets != 0.0f), 0)) {
#pragma unroll 1
      for (int split = first; split < min(first + kCount, own_); ++split) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (HasMail(half, split)) merged.Add(half, mail[0]);
        }
#pragma unroll
        for (int i = 0; i + 1 < kCount; ++i) mail[i] = mail[i + 1];
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) merged.AddPlain(mail[i]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool starts_later = rows_.keys[half].first / kSplitKeys >= min(first + kCount, own_);
      merged.empty[half] = merged.empty[half] && starts_later;
    }
  }

  const LaneRows& rows_;
  const int first_, own_;  // splits: the tile's first, the unit's
  const int64_t stride_;   // from one split to the next
  SplitMail* const mail_;  // this lane's, of the tile's first split
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_MAIL_CUH_
