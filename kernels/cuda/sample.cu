#include "kernels/cuda/sample.h"

#include <cuda_runtime.h>

#include <cassert>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/score.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/softmax_row.cuh"
#include "kernels/numerics/philox.h"

namespace isobit::cuda {
namespace {

constexpr float kForbidden = -__builtin_huge_valf();
constexpr uint64_t kTopPOff = uint64_t{1} << 32;

// Whether Edit changes anything.
__device__ bool Edits(const SamplingRow& params) {
  return params.edit_begin < params.edit_end ||
         (!IsGreedy(params.temperature) && params.temperature != 1.0f);
}

// Logit bias, penalties and temperature, in place.
__device__ void Edit(const SampleTokens& op, const SamplingRow& params, SoftmaxRow& row) {
  for (int e = params.edit_begin + static_cast<int>(threadIdx.x); e < params.edit_end;
       e += kRowThreads) {
    const LogitEdit edit = op.edits[e];
    if (!row.Owns(edit.token)) continue;
    float& z = row.Z(edit.token);
    z = EditLogit(z, edit.bias, edit.seen != 0, edit.output_count, params.repetition_penalty,
                  params.frequency_penalty, params.presence_penalty);
  }
  __syncthreads();
  if (IsGreedy(params.temperature)) return;
  row.ForEach([&](int token, float z) { row.Z(token) = ApplyTemperature(z, params.temperature); });
  __syncthreads();
}

// What min_p, top_k and top_p leave, each of what the one before left.
__device__ RowFilter MakeFilter(const SamplingRow& params, float m, SoftmaxRow& row) {
  RowFilter filter = {.m = m, .keeps_forbidden = false};
  if (IsGreedy(params.temperature)) return filter;
  filter.min_weight = MinPThreshold(params.min_p_q32);
  if (params.top_k > 0) {
    const auto top_k = static_cast<uint32_t>(params.top_k);
    if (top_k < row.SummariseKept(filter).count) {
      filter.min_key = row.SelectKey<Measure::kTokens>(top_k, filter);
    }
  }
  if (params.top_p_q32 < kTopPOff) {
    // The last token that is kept is the one at which the running weight reaches the threshold.
    const uint64_t threshold = TopPThreshold(params.top_p_q32, row.SummariseKept(filter).weight);
    filter.min_key = row.SelectKey<Measure::kWeights>(threshold, filter);
  }
  return filter;
}

// The logits as they left the model.
struct RawRow {
  const float* logits;
  float m;
  uint64_t total;
};

// Writes what was drawn: by the one thread that knows it.
__device__ void WriteSampled(const SamplingRow& params, const RawRow& raw, int token, float m,
                             float z, uint64_t total, SampledToken* sampled) {
  sampled->token = token;
  sampled->logprob = LogProb(raw.logits[token], raw.m, raw.total);
  sampled->processed_logprob = params.processed != 0 ? LogProb(z, m, total) : 0.0f;
}

// A row whose edited logits are a distribution. best: its first token in the total order.
__device__ void SampleValidRow(const SampleTokens& op, const SamplingRow& params, const RawRow& raw,
                               int best, SoftmaxRow& row, SampledToken* sampled,
                               TokenLogProb* top) {
  // A greedy draw needs no weights; nor does anybody who asked for none.
  if (IsGreedy(params.temperature) && params.processed == 0) {
    if (row.Owns(best) && threadIdx.x == 0) WriteSampled(params, raw, best, 0, 0, 0, sampled);
    return;
  }
  const float m = row.WaitForZOf(best);
  const RowFilter filter = MakeFilter(params, m, row);
  const RowSummary kept = row.SummariseKept(filter);
  int token = -1;
  if (IsGreedy(params.temperature)) {
    if (row.Owns(best) && threadIdx.x == 0) token = best;
  } else {
    const uint64_t bits = DrawBits(params.seed, params.sample_index, params.position);
    token = row.TokenAtWeight(DrawTarget(bits, kept.weight), filter);
  }
  if (token >= 0) WriteSampled(params, raw, token, m, row.Z(token), kept.weight, sampled);
  if (params.processed != 0) row.WriteTop(kept, params.top_count, op.top_stride, filter, top);
}

// One cluster a row.
__global__ void __launch_bounds__(kRowThreads, 2)
    SampleTokensKernel(const __grid_constant__ SampleTokens op) {
  extern __shared__ __align__(16) uint8_t memory[];
  auto& shared = *reinterpret_cast<RowShared*>(memory);
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  const int64_t index = blockIdx.x / kRowCtas;
  const SamplingRow& params = op.params[index];
  SampledToken* sampled = op.sampled + index;
  TokenLogProb* top = op.top + index * op.top_stride;
  SoftmaxRow row(shared, reinterpret_cast<float*>(&shared + 1), op.vocab);

  // Numbers of the raw row mean nothing if it is invalid; then the edited row is invalid too.
  RawRow raw = {op.logits + index * op.vocab, 0.0f, 0};
  row.Load(raw.logits);
  const RowSummary all_raw = row.Summarise();
  raw.m = raw.logits[RankKeyToken(all_raw.max_key)];
  // The top list of raw logits is written before these are edited, and taken back if the row fails.
  if (all_raw.invalid == 0 && raw.m != kForbidden) {
    const RowFilter no_filter = {.m = raw.m, .keeps_forbidden = true};
    const RowSummary sum = row.SummariseKept(no_filter);
    raw.total = sum.weight;
    if (params.processed == 0) row.WriteTop(sum, params.top_count, op.top_stride, no_filter, top);
  }
  RowSummary all = all_raw;
  if (Edits(params)) {
    Edit(op, params, row);
    all = row.Summarise();
  }
  constexpr uint32_t kForbiddenKey = OrderKey(kForbidden);
  if (all.invalid == 0 && all.max_key >> 32 > kForbiddenKey) {
    const auto best = static_cast<int>(RankKeyToken(all.max_key));
    SampleValidRow(op, params, raw, best, row, sampled, top);
  } else if (blockIdx.x % kRowCtas == 0) {
    if (threadIdx.x == 0) *sampled = SampledToken{};
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < op.top_stride; i += kRowThreads) {
      top[i] = TokenLogProb{};
    }
  }
  row.Finish();
}

}  // namespace

cudaError_t LaunchSampleTokens(const SampleTokens& op, cudaStream_t stream) {
  assert(op.vocab <= MaxVocab());
  if (op.rows == 0) return cudaSuccess;
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(op.rows * kRowCtas)),
                             .threads = kRowThreads,
                             .shared_bytes = RowSharedBytes(op.vocab),
                             .cluster = kRowCtas};
  return Launch(SampleTokensKernel, shape, stream, op);
}

}  // namespace isobit::cuda
