#include "kernels/cuda/attention_head_dim.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_split.cuh"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {

cudaError_t LaunchAttentionSplit(const AttentionParams& params, int ctas, bool early_start,
                                 cudaStream_t stream) {
  const auto launch = [&]<int kHeadDim>() {
    using Config = SplitConfig<kHeadDim, /*kShared=*/false>;
    const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(ctas)),
                               .threads = Config::kThreads,
                               .shared_bytes = SplitSharedBytes<Config>(),
                               .early_start = early_start};
    return Launch(AttentionSplitKernel<Config>, shape, stream, params);
  };
  return VisitHeadDim<16, 32, 64, 80, 96, 128, 256>(params.layout.head_dim, launch);
}

}  // namespace isobit::cuda
