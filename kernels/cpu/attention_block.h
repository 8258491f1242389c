#ifndef ISOBIT_KERNELS_CPU_ATTENTION_BLOCK_H_
#define ISOBIT_KERNELS_CPU_ATTENTION_BLOCK_H_

// Attention of one tile: up to kAttentionRows query rows of one sequence and one key head, over
// one split of keys, block by block. What a kernel can't answer is computed literally, row by row.

#include <cstdint>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/growing_array.h"
#include "kernels/cpu/kv_cache.h"
#include "kernels/ops.h"

namespace isobit {

// AttentionRows with memory of their own.
class AttentionRowsBuffer {
 public:
  AttentionRows Grow(int rows, int padded_head_dim);

 private:
  GrowingArray<float> o_, l_, bucket_;
  GrowingArray<bool> empty_;
};

// What the tiles of one operation share.
struct AttentionJob {
  AttentionJob(const Attention& attention, CpuContext& ctx);

  const Attention& op;
  const CpuKvCache& cache;
  CpuContext& context;
  const PrepareRowFunction prepare_row;
  const AttentionKernels kernels;
  const AttentionScale scale;
  const int group;  // query heads of a key head
};

// Query rows [begin, end) of a sequence, counted token by token and in a token head by head of the
// group of `kv_head`.
struct AttentionTile {
  int64_t sequence;
  int kv_head;
  int64_t begin;
  int64_t end;

  int rows() const { return static_cast<int>(end - begin); }
};

// Computes tiles. One per worker.
class AttentionBlocks {
 public:
  // Prepares the queries of a tile.
  void Start(const AttentionJob& job, const AttentionTile& tile);
  // The split of keys [1024 * split, 1024 * split + 1023] for the tile; `state` is overwritten.
  // Counts a tile in the context.
  void RunSplit(int64_t split, const AttentionRows& state);

  // Row numbers of the operation, and positions, of the tile's rows.
  int64_t OpRow(int row) const;
  int Head(int row) const;
  const Bf16* Query(int row) const;
  // The first and the last split that some row of the tile sees.
  int64_t first_split() const { return first_readable_ / kSplitKeys; }
  int64_t last_split() const { return last_readable_ / kSplitKeys; }

 private:
  int64_t Position(int row) const;
  int32_t PageOf(int64_t position) const;
  // How many of the 16 keys from group_begin on some row sees.
  enum class Readable { kNone, kSome, kAll };
  Readable ReadableKeys(int64_t group_begin) const;
  // Where the 16 keys and the 16 values from group_begin on lie in the cache.
  const Bf16* CachedKeys(int64_t group_begin) const;
  const Bf16* CachedValues(int64_t group_begin) const;
  // Points keys and values of the block at the cache, or at copies with ones for what no row sees.
  void LocateKeys(int64_t block_begin);
  void LocateValues(int64_t block_begin);
  void RunBlock(int64_t block_begin, const AttentionRows& state);
  void ComputeScores(int64_t block_begin);
  void AddValues(int64_t block_begin, const AttentionRows& state);
  void ScoreRowLiterally(int64_t block_begin, int row);
  void AddRowLiterally(int row, const AttentionRows& state);

  const AttentionJob* job_ = nullptr;
  AttentionTile tile_{};
  int head_dim_ = 0;
  // Positions that some row of the tile sees: others must not be read.
  int64_t first_readable_ = 0;
  int64_t last_readable_ = 0;
  bool literal_ = false;  // some row of the split was computed literally

  GrowingArray<ActivationStep> q_;
  GrowingArray<StepKind> q_kinds_;
  ExponentRange q_exponents_[kAttentionRows];
  GrowingArray<Bf16> key_copy_, value_copy_;
  const Bf16* keys_[kBlockSteps];
  const Bf16* values_[kBlockSteps];  // rows of PaddedHeadDim(head_dim_)
  VisibleKeys visible_[kAttentionRows];
  alignas(64) float scores_[kAttentionRows * kBlockKeys];
  ActivationStep p_[kAttentionRows * kBlockSteps];
  StepKind p_kinds_[kAttentionRows * kBlockSteps];
  ExponentRange p_exponents_[kAttentionRows];
  // The row's sums in this split are too large for the kernels: it stays literal.
  bool large_[kAttentionRows];
  AttentionRowsBuffer before_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_ATTENTION_BLOCK_H_
