#ifndef ISOBIT_KERNELS_CUDA_ROPE_H_
#define ISOBIT_KERNELS_CUDA_ROPE_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/kv_cache.h"
#include "kernels/ops.h"

namespace isobit::cuda {

// Queues op; `cache` is op.cache. Pointers must be aligned to 16 bytes.
cudaError_t LaunchRopeKvWrite(const RopeKvWrite& op, const CudaKvCache& cache, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ROPE_H_
