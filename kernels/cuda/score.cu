#include "kernels/cuda/score.h"

#include <cuda_runtime.h>

#include <cassert>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/softmax_row.cuh"

namespace isobit::cuda {
namespace {

// One cluster a row.
__global__ void __launch_bounds__(kRowThreads, 2)
    ScoreTokensKernel(const __grid_constant__ ScoreTokens op) {
  extern __shared__ __align__(16) uint8_t memory[];
  auto& shared = *reinterpret_cast<RowShared*>(memory);
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  const int64_t index = blockIdx.x / kRowCtas;
  const float* logits = op.logits + index * op.vocab;
  TokenLogProb* top = op.top + index * op.top_count;
  SoftmaxRow row(shared, reinterpret_cast<float*>(&shared + 1), op.vocab);
  const bool writes = blockIdx.x % kRowCtas == 0 && threadIdx.x == 0;

  row.Load(logits);
  const RowSummary all = row.Summarise();
  const float m = logits[RankKeyToken(all.max_key)];
  if (all.invalid != 0 || m == BitsFloat(0xff800000u)) {
    if (writes) {
      op.logprob[index] = CanonicalNan();
      for (int i = 0; i < op.top_count; ++i) top[i] = TokenLogProb{};
    }
  } else {
    const RowFilter no_filter = {.m = m, .keeps_forbidden = true};
    const RowSummary sum = row.SummariseKept(no_filter);
    if (writes) op.logprob[index] = LogProb(logits[op.token[index]], m, sum.weight);
    row.WriteTop(sum, op.top_count, op.top_count, no_filter, top);
  }
  row.Finish();
}

}  // namespace

int64_t MaxVocab() { return kMaxRowVocab; }

cudaError_t LaunchScoreTokens(const ScoreTokens& op, cudaStream_t stream) {
  assert(op.vocab <= MaxVocab());
  if (op.rows == 0) return cudaSuccess;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(op.rows * kRowCtas)),
                             .threads = kRowThreads,
                             .shared_bytes = RowSharedBytes(op.vocab),
                             .cluster = kRowCtas};
  return Launch(ScoreTokensKernel, shape, stream, op);
}

}  // namespace isobit::cuda
