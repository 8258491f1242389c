#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_HANDED_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_HANDED_CUH_

// What goes from the first part of a work that is cut to the second, through global memory
// (attention_prefill_work.h). Each thread hands what it has to its like in another CTA, and each
// warp has a flag that says when.

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/sm90/atomic.h"
#include "kernels/cuda/sm90/opaque.h"
#include "kernels/cuda/sm90/relaxed.h"

namespace isobit::cuda {

// Of this thread.
template <class Config>
class PrefillHanded {
 public:
  __device__ PrefillHanded(const AttentionParams& p, int cut_index) {
    const auto thread = static_cast<int>(sm90::Opaque(threadIdx.x));
    fours_ = reinterpret_cast<float4*>(p.prefill_handed) +
             int64_t{cut_index} * kFours * Config::kConsumers + thread;
    flag_ = p.prefill_handed_flags + cut_index * (Config::kConsumers / 32) + thread / 32;
  }

  // The output of the split that is cut, and its l.
  __device__ float4& Sums(int four) const { return At(four); }
  // l of the splits before, and whether the warp's rows are wild.
  __device__ float4& Rest() const { return At(Config::kSumFours); }
  // The output of the splits before.
  __device__ float4& Merged(int four) const { return At(Config::kSumFours + 1 + four); }

  // All lanes, when the above is written.
  __device__ void Publish() const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) sm90::StoreRelease(flag_, 1);
  }
  // All lanes, before the above is read. Leaves the flag as it was before.
  __device__ void Await() const {
    while (__any_sync(0xffffffffu, sm90::LoadAcquire(flag_) == 0)) {
    }
    if (threadIdx.x % 32 == 0) *flag_ = 0;
  }

 private:
  static constexpr int kFours = Config::kSumFours + 1 + Config::kMergedFours;
  static_assert(PrefillHandedFloats(Config::kHeadDim) == kFours * 4 * Config::kConsumers);
  static_assert(PrefillHandedFlags(Config::kHeadDim) == Config::kConsumers / 32);

  __device__ float4& At(int four) const { return fours_[four * Config::kConsumers]; }

  float4* fours_;
  unsigned* flag_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_HANDED_CUH_
