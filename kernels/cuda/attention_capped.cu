// The split kernel with soft caps of scores, compiled apart: kernels without caps stay as they are.

#include "kernels/cuda/attention_split.cuh"

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {
namespace {

template <int kHeadDim>
struct CappedConfig : SplitConfig<kHeadDim, /*kShared=*/false> {
  static constexpr bool kCapsScores = true;
};

template <int kHeadDim>
cudaError_t LaunchFor(const AttentionParams& params, int ctas, bool early_start,
                      cudaStream_t stream) {
  using Config = CappedConfig<kHeadDim>;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(ctas)),
                             .threads = Config::kThreads,
                             .shared_bytes = SplitSharedBytes<Config>(),
                             .early_start = early_start};
  return Launch(AttentionSplitKernel<Config>, shape, stream, params);
}

}  // namespace

cudaError_t LaunchAttentionCapped(const AttentionParams& params, int ctas, bool early_start,
                                  cudaStream_t stream) {
  switch (params.layout.head_dim) {
    case 16:
      return LaunchFor<16>(params, ctas, early_start, stream);
    case 32:
      return LaunchFor<32>(params, ctas, early_start, stream);
    case 64:
      return LaunchFor<64>(params, ctas, early_start, stream);
    case 80:
      return LaunchFor<80>(params, ctas, early_start, stream);
    case 96:
      return LaunchFor<96>(params, ctas, early_start, stream);
    case 128:
      return LaunchFor<128>(params, ctas, early_start, stream);
    case 256:
      return LaunchFor<256>(params, ctas, early_start, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace isobit::cuda
