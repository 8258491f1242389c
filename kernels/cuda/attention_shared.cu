#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_split.cuh"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {
namespace {

// visit(config, kernel, shape) for the kernel of a head size.
template <int kHeadDim, typename Visit>
cudaError_t Visited(int clusters, int share, bool early_start, const Visit& visit) {
  using Config = SplitConfig<kHeadDim, /*kShared=*/true>;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(clusters * share)),
                             .threads = Config::kThreads,
                             .shared_bytes = SplitSharedBytes<Config>(),
                             .cluster = share,
                             .early_start = early_start};
  return visit(AttentionSplitKernel<Config>, shape);
}

template <typename Visit>
cudaError_t VisitFor(int head_dim, int clusters, int share, bool early_start, const Visit& visit) {
  switch (head_dim) {
    case 16:
      return Visited<16>(clusters, share, early_start, visit);
    case 32:
      return Visited<32>(clusters, share, early_start, visit);
    case 64:
      return Visited<64>(clusters, share, early_start, visit);
    case 80:
      return Visited<80>(clusters, share, early_start, visit);
    case 96:
      return Visited<96>(clusters, share, early_start, visit);
    case 128:
      return Visited<128>(clusters, share, early_start, visit);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t LaunchAttentionShared(const AttentionParams& params, int clusters, bool early_start,
                                  cudaStream_t stream) {
  return VisitFor(params.layout.head_dim, clusters, params.share, early_start,
                  [&](auto* kernel, const LaunchShape& shape) {
                    return Launch(kernel, shape, stream, params);
                  });
}

cudaError_t CountSharedClusters(int head_dim, int share, int* clusters) {
  return VisitFor(head_dim, 1, share, false, [&](auto* kernel, const LaunchShape& shape) {
    return CountClusters(reinterpret_cast<const void*>(kernel), shape, clusters);
  });
}

}  // namespace isobit::cuda
