#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_HEAD_DIM_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_HEAD_DIM_H_

#include <cuda_runtime_api.h>

namespace isobit::cuda {

// visit.operator()<head_dim>() if head_dim is one of those listed, which are what a kernel is
// compiled for; else an error.
template <int kFirst, int... kOthers, typename Visit>
cudaError_t VisitHeadDim(int head_dim, const Visit& visit) {
  if (head_dim == kFirst) return visit.template operator()<kFirst>();
  if constexpr (sizeof...(kOthers) > 0) return VisitHeadDim<kOthers...>(head_dim, visit);
  return cudaErrorInvalidValue;
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_HEAD_DIM_H_
