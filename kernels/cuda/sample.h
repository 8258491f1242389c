#ifndef ISOBIT_KERNELS_CUDA_SAMPLE_H_
#define ISOBIT_KERNELS_CUDA_SAMPLE_H_

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

namespace isobit::cuda {

// Queues op. REQUIRES: op.vocab <= MaxVocab() (score.h).
cudaError_t LaunchSampleTokens(const SampleTokens& op, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_SAMPLE_H_
