#ifndef ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_ORACLE_H_
#define ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_ORACLE_H_

// AttendRow of kernels/numerics/attention.h on the GPU, one thread a row and head: the
// specification itself, fast enough for inputs that a CPU would take minutes for.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/numerics/bf16.h"

namespace isobit {

struct AttentionOracle {
  int64_t rows = 0;
  int heads = 0, kv_heads = 0, head_dim = 0, window = 0;
  double softmax_scale = 0;
  float soft_cap = 0;
  const Bf16* q = nullptr;            // [rows][heads][head_dim]
  const int32_t* position = nullptr;  // [rows]
  const int64_t* history =
      nullptr;                 // [rows]: which key is that of position 0 of the row's sequence
  const Bf16* keys = nullptr;  // [all positions of all sequences][kv_heads][head_dim]
  const Bf16* values = nullptr;
  Bf16* out = nullptr;  // [rows][heads][head_dim]
};

cudaError_t LaunchAttentionOracle(const AttentionOracle& oracle, cudaStream_t stream);

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_ORACLE_H_
