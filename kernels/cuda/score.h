#ifndef ISOBIT_KERNELS_CUDA_SCORE_H_
#define ISOBIT_KERNELS_CUDA_SCORE_H_

#include <cuda_runtime_api.h>

#include "kernels/ops.h"

namespace isobit::cuda {

// The largest vocabulary that LaunchScoreTokens and LaunchSampleTokens can do.
int64_t MaxVocab();

// Queues op. REQUIRES: op.vocab <= MaxVocab().
cudaError_t LaunchScoreTokens(const ScoreTokens& op, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_SCORE_H_
