#include "kernels/cuda/attention_head_dim.h"
#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_split.cuh"
#include "kernels/cuda/launch.h"

namespace isobit::cuda {
namespace {

// visit(kernel, shape) for the kernel of a head size.
template <typename Visit>
cudaError_t VisitShared(int head_dim, int clusters, int share, bool early_start,
                        const Visit& visit) {
  return VisitHeadDim<HasSharedKernel>(head_dim, [&]<int kHeadDim>() {
    using Config = SplitConfig<kHeadDim, /*kShared=*/true>;
    LaunchShape shape = SplitLaunchShape<Config>(clusters * share, early_start);
    shape.cluster = share;
    return visit(AttentionSplitKernel<Config>, shape);
  });
}

}  // namespace

cudaError_t LaunchAttentionShared(const AttentionParams& params, int clusters, bool early_start,
                                  cudaStream_t stream) {
  return VisitShared(params.layout.head_dim, clusters, params.share, early_start,
                     [&](auto* kernel, const LaunchShape& shape) {
                       return Launch(kernel, shape, stream, params);
                     });
}

cudaError_t CountSharedClusters(int head_dim, int share, int* clusters) {
  return VisitShared(head_dim, 1, share, false, [&](auto* kernel, const LaunchShape& shape) {
    return CountClusters(reinterpret_cast<const void*>(kernel), shape, clusters);
  });
}

}  // namespace isobit::cuda
