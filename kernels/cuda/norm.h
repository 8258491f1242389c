#ifndef ISOBIT_KERNELS_CUDA_NORM_H_
#define ISOBIT_KERNELS_CUDA_NORM_H_

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

namespace isobit::cuda {

// Queues op. Its width must be a multiple of 8, its pointers aligned to 16 bytes.
cudaError_t LaunchRmsNorm(const RmsNorm& op, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_NORM_H_
