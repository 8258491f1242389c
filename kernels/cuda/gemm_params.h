#ifndef ISOBIT_KERNELS_CUDA_GEMM_PARAMS_H_
#define ISOBIT_KERNELS_CUDA_GEMM_PARAMS_H_

// What a launch of the GEMM kernel is told.

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/sm90/copy.h"
#include "kernels/numerics/bf16.h"
#include "kernels/ops.h"

namespace isobit::cuda {

struct GemmParams {
  CUtensorMap x;          // {k, rows}: boxes of 64 x tokens
  const uint8_t* weight;  // PackedLayout
  int group_panels;
  int k_boxes;
  sm90::CacheHint weight_hint;
  int prefetch_stages;  // into L2, once the ring is full for the first time

  int tokens;  // as in GemmPlan
  TileOrder order;
  int tiles;
  int stages;

  Gemm::Epilogue epilogue;
  int64_t rows;     // of x and out
  int64_t outputs;  // of a row of out: n, or n / 2 after a gate
  bool vectors;     // rows of out and residual are aligned for 8 elements at a time
  const float* bias;
  float scale;
  const Bf16* residual;
  Bf16* out_bf16;
  float* out_fp32;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_PARAMS_H_
