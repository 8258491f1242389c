#include "kernels/cuda/attention_prefill.cuh"

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {
namespace {

template <int kHeadDim>
cudaError_t LaunchFor(const AttentionParams& params, int ctas, bool early_start,
                      cudaStream_t stream) {
  using Config = PrefillConfig<kHeadDim>;
  static_assert(HasPrefillKernel(kHeadDim) &&
                PrefillMergedFloats(kHeadDim) ==
                    (Config::kMergedInGlobal ? Config::kTileRows * kHeadDim : 0));
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(ctas)),
                             .threads = Config::kThreads,
                             .shared_bytes = static_cast<int>(sizeof(PrefillShared<Config>)),
                             .early_start = early_start};
  return Launch(AttentionPrefillKernel<Config>, shape, stream, params);
}

}  // namespace

cudaError_t LaunchAttentionPrefill(const AttentionParams& params, int ctas, bool early_start,
                                   cudaStream_t stream) {
  switch (params.layout.head_dim) {
    case 64:
      return LaunchFor<64>(params, ctas, early_start, stream);
    case 128:
      return LaunchFor<128>(params, ctas, early_start, stream);
    case 256:
      return LaunchFor<256>(params, ctas, early_start, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace isobit::cuda
