#include "kernels/cuda/attention_head_dim.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_split.cuh"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {

cudaError_t LaunchAttentionSplit(const AttentionParams& params, int ctas, bool early_start,
                                 cudaStream_t stream) {
  return VisitHeadDim<IsSupportedHeadDim>(params.layout.head_dim, [&]<int kHeadDim>() {
    using Config = SplitConfig<kHeadDim, /*kShared=*/false>;
    return Launch(AttentionSplitKernel<Config>, SplitLaunchShape<Config>(ctas, early_start), stream,
                  params);
  });
}

}  // namespace isobit::cuda
