#ifndef ISOBIT_KERNELS_CUDA_SOFT_CAP_H_
#define ISOBIT_KERNELS_CUDA_SOFT_CAP_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace isobit::cuda {

// values[i] = SoftCap(values[i], cap) of kernels/numerics/scalar.h, for i < count.
cudaError_t LaunchSoftCap(float* values, int64_t count, float cap, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_SOFT_CAP_H_
