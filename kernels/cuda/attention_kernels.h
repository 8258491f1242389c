#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_KERNELS_H_
#define ISOBIT_KERNELS_CUDA_ATTENTION_KERNELS_H_

// The compiled attention kernels. Each kind has a source file of its own, so that they compile side
// by side.

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention_params.h"

namespace isobit::cuda {

// Launches the split kernel on `ctas` CTAs. Works for every head size in kHeadDims. early_start:
// before what is in front of it in the stream has ended; the plan must not be part of that, nor may
// keys that lie before a sequence's first row of the batch.
cudaError_t LaunchAttentionSplit(const AttentionParams& params, int ctas, bool early_start,
                                 cudaStream_t stream);

// The same with a cluster of params.share CTAs for each unit, where a unit is a single split and
// there are no more units than clusters.
constexpr bool HasSharedKernel(int head_dim) { return head_dim <= 128; }
inline constexpr int kMaxShare = 4;
cudaError_t LaunchAttentionShared(const AttentionParams& params, int clusters, bool early_start,
                                  cudaStream_t stream);

// How many such clusters the device runs at once.
cudaError_t CountSharedClusters(int head_dim, int share, int* clusters);

// The same for params.scale with a soft cap.
cudaError_t LaunchAttentionCapped(const AttentionParams& params, int ctas, bool early_start,
                                  cudaStream_t stream);

// Whether there is a prefill kernel for this head size, the packed rows of its tiles, and the
// floats of scratch that each of its CTAs needs at AttentionParams::prefill_merged.
constexpr bool HasPrefillKernel(int head_dim) {
  return head_dim == 64 || head_dim == 128 || head_dim == 256;
}
constexpr int PrefillTileRows(int head_dim) { return head_dim <= 128 ? 192 : 128; }
constexpr int PrefillMergedFloats(int head_dim) {
  return head_dim <= 128 ? 0 : PrefillTileRows(head_dim) * head_dim;
}
// Floats and flags that are handed on where a work of the prefill kernel is cut.
constexpr int PrefillHandedFloats(int head_dim) {
  const int threads = PrefillTileRows(head_dim) * 2;
  return PrefillTileRows(head_dim) * head_dim * 2 + 8 * threads;
}
constexpr int PrefillHandedFlags(int head_dim) { return PrefillTileRows(head_dim) / 16; }
// Launches the prefill kernel. The split kernel must be launched after it, with the same params.
cudaError_t LaunchAttentionPrefill(const AttentionParams& params, int ctas, bool early_start,
                                   cudaStream_t stream);

// Cuts a batch into tiles for both kernels.
struct PlanRequest {
  RowBatch batch;
  Divisor group{1};
  int window = 0;
  int split_tile_rows = 0;   // packed rows of a tile of the split kernel, at most kSplitTileRows
  bool whole_tiles = false;  // the split kernel's units take all splits of a tile
  // If not 0, they do if the keys of so many tiles like it are behind it, for each key head.
  int whole_tiles_behind = 0;
  // Sequences with at least this many go to the prefill kernel; 0: none.
  int prefill_packed_rows = 0;
  int prefill_tile_rows = 0;  // packed rows of its tiles
  int prefill_ctas = 0;       // that it is launched on
  int kv_heads = 0;

  friend bool operator==(const PlanRequest& a, const PlanRequest& b);
};
cudaError_t LaunchAttentionPlan(const PlanRequest& request, PlanCounts* counts, SplitUnit* units,
                                AttentionTile* prefill_tiles, cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_KERNELS_H_
