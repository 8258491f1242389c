// The split kernel with soft caps of scores, compiled apart: kernels without caps stay as they are.

#include "kernels/cuda/attention_head_dim.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_split.cuh"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {
namespace {

template <int kHeadDim>
struct CappedConfig : SplitConfig<kHeadDim, /*kShared=*/false> {
  static constexpr bool kCapsScores = true;
};

}  // namespace

cudaError_t LaunchAttentionCapped(const AttentionParams& params, int ctas, bool early_start,
                                  cudaStream_t stream) {
  return VisitHeadDim<IsSupportedHeadDim>(params.layout.head_dim, [&]<int kHeadDim>() {
    using Config = CappedConfig<kHeadDim>;
    return Launch(AttentionSplitKernel<Config>, SplitLaunchShape<Config>(ctas, early_start), stream,
                  params);
  });
}

}  // namespace isobit::cuda
