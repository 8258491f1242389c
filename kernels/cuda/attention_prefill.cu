#include "kernels/cuda/attention_prefill.cuh"

#include "kernels/cuda/attention_head_dim.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {

cudaError_t LaunchAttentionPrefill(const AttentionParams& params, int ctas, bool early_start,
                                   cudaStream_t stream) {
  return VisitHeadDim<HasPrefillKernel>(params.layout.head_dim, [&]<int kHeadDim>() {
    using Config = PrefillConfig<kHeadDim>;
    static_assert(PrefillMergedFloats(kHeadDim) ==
                  (Config::kMergedInGlobal ? Config::kTileRows * kHeadDim : 0));
    const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(ctas)),
                               .threads = Config::kThreads,
                               .shared_bytes = static_cast<int>(sizeof(PrefillShared<Config>)),
                               .early_start = early_start};
    return Launch(AttentionPrefillKernel<Config>, shape, stream, params);
  });
}

}  // namespace isobit::cuda
