#include "kernels/cuda/gemm.h"

#include <cuda.h>

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "kernels/cuda/gemm_instances.h"
#include "kernels/cuda/gemm_params.h"

namespace isobit::cuda {
namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver is found at run time, so that one binary also starts on machines without it.
EncodeTiled FindEncodeTiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                       cudaEnableDefault, &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess) {
    return nullptr;
  }
  return reinterpret_cast<EncodeTiled>(function);
}

// x [rows][cols] in boxes of [tokens][64], swizzled; zeros outside.
cudaError_t EncodeX(const Bf16* x, int64_t rows, int64_t cols, int tokens, CUtensorMap* map) {
  static const EncodeTiled encode = FindEncodeTiled();
  if (encode == nullptr) return cudaErrorSymbolNotFound;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(cols) * sizeof(Bf16)};
  const cuuint32_t box[2] = {kBoxCols, static_cast<cuuint32_t>(tokens)};
  const cuuint32_t element_strides[2] = {1, 1};
  const CUresult result =
      encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<Bf16*>(x), sizes, strides, box,
             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

const void* FindKernel(const GemmKernelId& id) {
  switch (id.warpgroups) {
    case 1:
      return id.pair ? FindPairKernel(id.tile_rows) : FindSingleKernel(id.tile_rows);
    case 2:
      return id.pair ? FindWidePairKernel(id.tile_rows) : FindWideKernel(id.tile_rows);
    case 3:
      return id.pair ? nullptr : FindWidestKernel(id.tile_rows);
  }
  return nullptr;
}

bool IsAligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// Whether rows of the output and the residual can be touched 16 bytes at a time.
bool AllowsVectors(const Gemm& op, int64_t outputs) {
  return outputs % 8 == 0 && IsAligned(op.out_bf16, 16) && IsAligned(op.residual, 16) &&
         IsAligned(op.out_fp32, 16);
}

// What is asked for, as far as the plan gains by it.
GemmLaunch LaunchOf(const GemmPlan& plan, GemmLaunch launch) {
  launch.early_start = launch.early_start && plan.starts_early;
  return launch;
}

// x is read by all CTAs, and again for every tile. Where all have but one, they read it at the same
// time, and what is large then only takes room from results.
sm90::CacheHint XHint(int64_t x_bytes, const GemmPlan& plan) {
  constexpr int64_t kLarge = 2 << 20;
  if (plan.token_tiles > 1) return sm90::CacheHint::kEvictLast;
  return plan.row_tiles <= plan.units && x_bytes > kLarge ? sm90::CacheHint::kEvictFirst
                                                          : sm90::CacheHint::kEvictNormal;
}

GemmParams MakeParams(const Gemm& op, const PackedMatrix& weight, const GemmPlan& plan,
                      const GemmLaunch& launch) {
  const PackedLayout& layout = weight.layout;
  GemmParams p = {};
  p.weight = static_cast<const uint8_t*>(weight.data);
  p.group_panels = layout.GroupPanels();
  p.k_boxes = static_cast<int>(layout.KBoxes());
  // Weights that are read once must not push x, outputs and the KV cache out of L2.
  p.weight_hint =
      plan.token_tiles == 1 ? sm90::CacheHint::kEvictFirst : sm90::CacheHint::kEvictNormal;
  p.x_hint = XHint(op.rows * layout.cols * int64_t{sizeof(Bf16)}, plan);
  const int stage_bytes =
      RingBytes(plan.kernel.tile_rows, BoxesPerStage(plan.kernel.tile_rows, plan.kernel.warpgroups),
                /*stages=*/1);
  p.prefetch_stages =
      launch.early_start ? launch.prefetch_bytes * plan.CtasPerUnit() / stage_bytes : 0;
  p.tokens = plan.tokens;
  p.order = OrderOf(plan, layout);
  p.tiles = plan.token_tiles * plan.row_tiles;
  p.stages = plan.stages;
  p.epilogue = op.epilogue;
  p.rows = op.rows;
  p.outputs = layout.gate_up ? layout.rows / 2 : layout.rows;
  p.vectors = AllowsVectors(op, p.outputs);
  p.rehearses = launch.early_start && CanRehearse(plan.kernel.warpgroups) && plan.token_tiles == 1;
  p.bias = op.bias;
  p.scale = op.scale;
  p.residual = op.residual;
  p.out_bf16 = op.out_bf16;
  p.out_fp32 = op.out_fp32;
  return p;
}

QkvParams MakeQkvParams(const RopeKvWrite& rope, const HeadRows& rows, const CudaKvCache& cache) {
  return {.heads = rope.heads,
          .kv_heads = rope.kv_heads,
          .rows = rows,
          .head_panels = Divisor(rows.HeadPanels()),
          .rotates = rope.rotary_dim > 0,
          .cos = rope.cos,
          .sin = rope.sin,
          .position = rope.batch->position,
          .sequence = rope.batch->sequence,
          .page_table = rope.batch->page_table,
          .page_table_stride = rope.batch->page_table_stride,
          .page_tokens = Divisor(cache.shape().page_tokens),
          .q = rope.q,
          .cache_layer = cache.Layer(rope.layer),
          .cache = cache.layout()};
}

// Launches with everything in p but x.
cudaError_t LaunchKernel(GemmParams p, const Gemm& op, const PackedLayout& weight,
                         const GemmPlan& plan, const GemmLaunch& launch, cudaStream_t stream) {
  const void* kernel = FindKernel(plan.kernel);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  cudaError_t error = EncodeX(op.x, op.rows, weight.cols, plan.tokens, &p.x);
  if (error != cudaSuccess) return error;
  const int shared_bytes = SharedBytes(plan);
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) return error;

  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (plan.kernel.pair) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim = {2, 1, 1};
    ++count;
  }
  if (launch.early_start) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count].val.programmaticStreamSerializationAllowed = 1;
    ++count;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(plan.Ctas()));
  config.blockDim =
      dim3(static_cast<unsigned>(CtaThreads(plan.kernel.tile_rows, plan.kernel.warpgroups)));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  void* arguments[] = {&p};
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace

cudaError_t LaunchGemm(const Gemm& op, const PackedMatrix& weight, const GemmPlan& plan,
                       const GemmLaunch& launch, cudaStream_t stream) {
  assert(weight.layout.cols % kGemmColsMultiple == 0);
  assert(weight.layout.gate_up == IsGate(op.epilogue) && weight.layout.heads.head_dim == 0);
  const GemmLaunch how = LaunchOf(plan, launch);
  return LaunchKernel(MakeParams(op, weight, plan, how), op, weight.layout, plan, how, stream);
}

cudaError_t LaunchQkvProjection(const QkvProjection& op, const PackedMatrix& weight,
                                const CudaKvCache& cache, const GemmPlan& plan,
                                const GemmLaunch& launch, cudaStream_t stream) {
  const HeadRows& rows = weight.layout.heads;
  const RopeKvWrite& rope = op.rope;
  assert(rows.head_dim == rope.head_dim && rows.rotated_heads == rope.heads + rope.kv_heads);
  assert(rope.rotary_dim == rows.rotary_dim || rope.rotary_dim == 0);
  assert(rope.q_norm == nullptr && rope.k_norm == nullptr);
  assert(IsAligned(rope.q, 16) && IsAligned(rope.cos, 16) && IsAligned(rope.sin, 16));
  const GemmLaunch how = LaunchOf(plan, launch);
  GemmParams p = MakeParams(op.projection, weight, plan, how);
  p.qkv = MakeQkvParams(rope, rows, cache);
  return LaunchKernel(p, op.projection, weight.layout, plan, how, stream);
}

}  // namespace isobit::cuda
