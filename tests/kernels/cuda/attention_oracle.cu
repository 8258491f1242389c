#include "tests/kernels/cuda/attention_oracle.h"

#include <cuda_runtime.h>

#include "kernels/numerics/attention.h"

namespace isobit {
namespace {

constexpr int kThreads = 64;

__global__ void AttentionOracleKernel(AttentionOracle oracle, AttentionScale scale) {
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= oracle.rows * oracle.heads) return;
  // Neighbouring threads take neighbouring rows of one head, whose keys are about as many.
  const int64_t row = index % oracle.rows;
  const auto head = static_cast<int>(index / oracle.rows);
  const int kv_head = head / (oracle.heads / oracle.kv_heads);
  const int64_t last = oracle.position[row];
  const auto element = [&](const Bf16* array, int64_t position) {
    return array + ((oracle.history[row] + position) * oracle.kv_heads + kv_head) * oracle.head_dim;
  };
  const int64_t at = (row * oracle.heads + head) * oracle.head_dim;
  AttendRow(
      oracle.q + at, oracle.head_dim, scale, FirstVisibleKey(last, oracle.window), last,
      [&](int64_t position) { return element(oracle.keys, position); },
      [&](int64_t position) { return element(oracle.values, position); }, oracle.out + at);
}

}  // namespace

cudaError_t LaunchAttentionOracle(const AttentionOracle& oracle, cudaStream_t stream) {
  const int64_t threads = oracle.rows * oracle.heads;
  AttentionOracleKernel<<<static_cast<unsigned>((threads + kThreads - 1) / kThreads), kThreads, 0,
                          stream>>>(oracle, MakeAttentionScale(oracle.softmax_scale, oracle.soft_cap));
  return cudaGetLastError();
}

}  // namespace isobit
