#include "kernels/cuda/rope.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>

#include "kernels/cuda/bf16_chunk.cuh"
#include "kernels/cuda/fold_lanes.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/rope.h"
#include "kernels/numerics/row_sum.h"

namespace isobit::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxHeadDim = 256;
// A warp holds a head as one chunk a lane, and this many pairs of the rotation a lane.
constexpr int kMaxPairsPerLane = kMaxHeadDim / 2 / 32;
static_assert(kMaxHeadDim <= 32 * Bf16Chunk::kElements);

struct RopeParams {
  RopeKvWrite op;
  RowBatch batch;
  KvLayout layout;
  uint8_t* cache_layer;
  int heads_per_warp;
};

// One row of one warp: its place in the cache and its angles. These are read before the kernels in
// front of this one have ended: the batch was uploaded before any of them began.
class HeadWriter {
 public:
  __device__ HeadWriter(const RopeParams& p, int64_t row, Bf16* scratch)
      : p_(p), row_(row), lane_(static_cast<int>(threadIdx.x) % 32), head_(scratch) {
    const int32_t position = __ldcg(p.batch.position + row);
    const int64_t page_entry = __ldcg(p.batch.sequence + row) * p.batch.page_table_stride +
                               position / p.layout.page_tokens;
    page_ = __ldcg(p.batch.page_table + page_entry);
    slot_ = position % p.layout.page_tokens;
    const int64_t angles = int64_t{position} * Pairs();
#pragma unroll
    for (int i = 0; i < kMaxPairsPerLane; ++i) {
      if (Pair(i) >= Pairs()) break;
      cos_[i] = p.op.cos[angles + Pair(i)];
      sin_[i] = p.op.sin[angles + Pair(i)];
    }
  }

  // head: in the fused projection: queries, then keys, then values.
  __device__ void Write(int head) const {
    const RopeKvWrite& op = p_.op;
    const int key_head = head - op.heads;
    const int value_head = key_head - op.kv_heads;
    const int64_t fused_heads = op.heads + 2 * op.kv_heads;
    const Bf16* from = op.qkv + (row_ * fused_heads + head) * op.head_dim;
    if (value_head >= 0) {
      if (HasChunk()) StoreToCache(LoadChunk(from + lane_ * 8), value_head, /*values=*/true);
      return;
    }
    Prepare(from, key_head < 0 ? op.q_norm : op.k_norm);
    if (!HasChunk()) return;
    const Bf16Chunk chunk = LoadChunk(head_ + lane_ * 8);
    if (key_head < 0) {
      StoreChunk(chunk, op.q + (row_ * op.heads + head) * op.head_dim + lane_ * 8);
    } else {
      StoreToCache(chunk, key_head, /*values=*/false);
    }
  }

 private:
  __device__ int Pairs() const { return p_.op.rotary_dim / 2; }
  __device__ int Pair(int i) const { return lane_ + 32 * i; }
  __device__ bool HasChunk() const { return lane_ * 8 < p_.op.head_dim; }

  // Normalises if asked and rotates; the result is in head_.
  __device__ void Prepare(const Bf16* from, const Bf16* norm) const {
    Bf16Chunk x = {};
    if (HasChunk()) x = LoadChunk(from + lane_ * 8);
    if (norm != nullptr) {
      const float sum = FoldWarp(AddSquares(x, 0.0f));
      const float scale = RmsScale(sum, p_.op.head_dim, p_.op.norm_eps);
      if (HasChunk()) x = RmsNormChunk(x, scale, LoadChunk(norm + lane_ * 8));
    }
    __syncwarp();  // the head before this one has been read
    if (HasChunk()) StoreChunk(x, head_ + lane_ * 8);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kMaxPairsPerLane; ++i) {
      if (Pair(i) >= Pairs()) break;
      Bf16& x1 = head_[Pair(i)];
      Bf16& x2 = head_[Pair(i) + Pairs()];
      float y1 = 0.0f, y2 = 0.0f;
      RotatePair(ToFloat(x1), ToFloat(x2), cos_[i], sin_[i], &y1, &y2);
      x1 = RoundToBf16(y1);
      x2 = RoundToBf16(y2);
    }
    __syncwarp();
  }

  __device__ void StoreToCache(const Bf16Chunk& chunk, int kv_head, bool values) const {
    const KvLayout& layout = p_.layout;
    const int64_t tile =
        values ? layout.ValuesOffset(page_, kv_head) : layout.KeysOffset(page_, kv_head);
    StoreChunk(chunk, p_.cache_layer + tile + KvChunkOffset(layout.head_dim, slot_, lane_));
  }

  const RopeParams& p_;
  const int64_t row_;
  const int lane_;
  Bf16* const head_;  // shared memory of this warp
  int64_t page_;
  int slot_;
  float cos_[kMaxPairsPerLane], sin_[kMaxPairsPerLane];
};

// grid.x: rows; grid.y: groups of heads. A warp takes heads_per_warp heads, one after the other.
__global__ void __launch_bounds__(32 * kWarps)
    RopeKvWriteKernel(const __grid_constant__ RopeParams p) {
  __shared__ alignas(16) Bf16 scratch[kWarps][kMaxHeadDim];
  sm90::LaunchDependentKernels();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int fused_heads = p.op.heads + 2 * p.op.kv_heads;
  const int first = (static_cast<int>(blockIdx.y) * kWarps + warp) * p.heads_per_warp;
  if (first >= fused_heads) return;
  const HeadWriter writer(p, blockIdx.x, scratch[warp]);
  sm90::WaitForPriorKernels();
  const int end = min(first + p.heads_per_warp, fused_heads);
  for (int head = first; head < end; ++head) writer.Write(head);
}

}  // namespace

cudaError_t LaunchRopeKvWrite(const RopeKvWrite& op, const CudaKvCache& cache,
                              cudaStream_t stream) {
  assert(op.head_dim <= kMaxHeadDim && op.head_dim == cache.shape().head_dim);
  assert(op.rotary_dim % 2 == 0 && op.rotary_dim <= op.head_dim);
  if (op.batch->rows == 0) return cudaSuccess;
  const int fused_heads = op.heads + 2 * op.kv_heads;
  // Few rows: spread them over the chip. Many: read a row's angles once for several heads.
  constexpr int64_t kManyRows = 256;
  const int heads_per_warp = op.batch->rows < kManyRows ? 1 : (fused_heads + kWarps - 1) / kWarps;
  const int heads_per_cta = heads_per_warp * kWarps;
  const dim3 grid(static_cast<unsigned>(op.batch->rows),
                  static_cast<unsigned>((fused_heads + heads_per_cta - 1) / heads_per_cta));
  const RopeParams params = {op, *op.batch, cache.layout(), cache.Layer(op.layer), heads_per_warp};
  return Launch(RopeKvWriteKernel, {.grid = grid, .threads = 32 * kWarps}, stream, params);
}

}  // namespace isobit::cuda
