#ifndef ISOBIT_KERNELS_CUDA_EMBED_H_
#define ISOBIT_KERNELS_CUDA_EMBED_H_

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm.h"
#include "kernels/ops.h"

namespace isobit::cuda {

// Queues op; `table` takes the place of op.table. Its width must be a multiple of 8.
cudaError_t LaunchEmbed(const Embed& op, const PackedMatrix& table, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_EMBED_H_
