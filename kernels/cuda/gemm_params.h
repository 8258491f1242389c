#ifndef ISOBIT_KERNELS_CUDA_GEMM_PARAMS_H_
#define ISOBIT_KERNELS_CUDA_GEMM_PARAMS_H_

// What a launch of the GEMM kernel is told.

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/divisor.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/kv_layout.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/cuda/sm90/copy.h"
#include "kernels/numerics/bf16.h"
#include "kernels/ops.h"

namespace isobit::cuda {

// Where the product of a QkvProjection (kernels/ops.h) goes. Angles, positions and the page table
// are written by nothing that a launch may overlap.
struct QkvParams {
  int heads = 0;  // 0: this is another operation
  int kv_heads = 0;
  HeadRows rows;
  Divisor head_panels{1};
  bool rotates = false;
  const float* cos = nullptr;  // [positions][rotary_dim / 2]
  const float* sin = nullptr;

  const int32_t* position = nullptr;
  const int32_t* sequence = nullptr;
  const int32_t* page_table = nullptr;
  int64_t page_table_stride = 0;
  Divisor page_tokens{1};

  Bf16* q = nullptr;
  uint8_t* cache_layer = nullptr;
  KvLayout cache{KvCacheShape{}};
};

// Whether kernels can go through a tile before it is there (GemmParams::rehearses): those of
// decode.
constexpr bool CanRehearse(int warpgroups) { return warpgroups == 1; }

struct GemmParams {
  CUtensorMap x;          // {k, rows}: boxes of 64 x tokens
  const uint8_t* weight;  // PackedLayout
  int group_panels;
  int k_boxes;
  sm90::CacheHint weight_hint, x_hint;
  int prefetch_stages;  // into L2, once the ring is full for the first time

  int tokens;  // as in GemmPlan
  TileOrder order;
  int tiles;
  int stages;

  Gemm::Epilogue epilogue;
  int64_t rows;     // of x and out
  int64_t outputs;  // of a row of out: n, or n / 2 after a gate
  bool vectors;     // rows of out and residual are aligned for 8 elements at a time
  bool rehearses;   // goes the way of a tile once while it waits
  const float* bias;
  float scale;
  const Bf16* residual;
  Bf16* out_bf16;
  float* out_fp32;
  QkvParams qkv;  // takes the place of out_bf16
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_PARAMS_H_
