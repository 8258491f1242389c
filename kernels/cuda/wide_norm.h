#ifndef ISOBIT_KERNELS_CUDA_WIDE_NORM_H_
#define ISOBIT_KERNELS_CUDA_WIDE_NORM_H_

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

namespace isobit::cuda {

// Whether op is more than norm.h's kernel does: weights in fp32, or runs of a row.
bool IsWideNorm(const RmsNorm& op);

// Any RmsNorm. REQUIRES: width and stride are multiples of 8.
cudaError_t LaunchWideNorm(const RmsNorm& op, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_WIDE_NORM_H_
