#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_HEAD_DIM_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_HEAD_DIM_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <iterator>

#include "kernels/cuda/kv_layout.h"

namespace isobit::cuda {

// visit.operator()<head_dim>() if head_dim is one of kHeadDims for which kHasKernel holds, which
// are what a kernel is compiled for; else an error.
template <bool (*kHasKernel)(int), size_t kIndex = 0, typename Visit>
cudaError_t VisitHeadDim(int head_dim, const Visit& visit) {
  if constexpr (kIndex < std::size(kHeadDims)) {
    if constexpr (kHasKernel(kHeadDims[kIndex])) {
      if (head_dim == kHeadDims[kIndex]) return visit.template operator()<kHeadDims[kIndex]>();
    }
    return VisitHeadDim<kHasKernel, kIndex + 1>(head_dim, visit);
  }
  return cudaErrorInvalidValue;
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_HEAD_DIM_H_
