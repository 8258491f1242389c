#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/attention_kernel.h"
#include "kernels/numerics/attention.h"

namespace isobit {
namespace {

// With fewer tiles than this for each thread, splits become tasks of their own.
constexpr int64_t kTilesPerThread = 4;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct WorkerScratch {
  AttentionBlocks blocks;
  AttentionRowsBuffer split;
  AttentionRowsBuffer merged;
};

}  // namespace

struct AttentionScratch {
  explicit AttentionScratch(int workers) : worker(static_cast<size_t>(workers)) {}

  std::vector<AttentionTile> tiles;
  std::vector<WorkerScratch> worker;
  // States of [tiles][splits], if splits are tasks.
  std::vector<AttentionRowsBuffer> states;
};

namespace {

// Row `row` of a later split into the merge of all earlier ones: MergeSplit of
// kernels/numerics/attention.h. The split's row is used up.
void MergeRow(const AttentionRows& split, int row, const AttentionRows& merged) {
  if (split.empty[row]) return;
  const int width = split.padded_head_dim;
  float* from = split.o + int64_t{row} * width;
  float* to = merged.o + int64_t{row} * width;
  if (merged.empty[row]) {
    merged.empty[row] = false;
    merged.bucket[row] = split.bucket[row];
    merged.l[row] = split.l[row];
    std::copy(from, from + width, to);
    return;
  }
  const auto raise = [width](float bucket, float& own_bucket, float& l, float* o) {
    if (own_bucket >= bucket) return;
    const int steps = BucketSteps(bucket, own_bucket);
    l = ScaleDown(l, steps);
    for (int d = 0; d < width; ++d) o[d] = ScaleDown(o[d], steps);
    own_bucket = bucket;
  };
  raise(split.bucket[row], merged.bucket[row], merged.l[row], to);
  raise(merged.bucket[row], split.bucket[row], split.l[row], from);
  merged.l[row] = ieee::Add(merged.l[row], split.l[row]);
  for (int d = 0; d < width; ++d) to[d] = ieee::Add(to[d], from[d]);
}

void Merge(const AttentionRows& split, const AttentionRows& merged) {
  for (int row = 0; row < split.rows; ++row) MergeRow(split, row, merged);
}

void WriteOutput(const AttentionJob& job, const AttentionBlocks& blocks,
                 const AttentionRows& merged) {
  for (int row = 0; row < merged.rows; ++row) {
    const int64_t head = blocks.OpRow(row) * job.op.heads + blocks.Head(row);
    job.kernels.finish(merged.o + int64_t{row} * merged.padded_head_dim, merged.l[row],
                       job.op.head_dim, job.op.out + head * job.op.head_dim);
  }
}

// All splits of a tile, one after the other.
void RunTile(const AttentionJob& job, const AttentionTile& tile, WorkerScratch& worker) {
  const int padded = PaddedHeadDim(job.op.head_dim);
  const AttentionRows split = worker.split.Grow(tile.rows(), padded);
  const AttentionRows merged = worker.merged.Grow(tile.rows(), padded);
  std::fill(merged.empty, merged.empty + merged.rows, true);
  worker.blocks.Start(job, tile);
  for (int64_t s = worker.blocks.first_split(); s <= worker.blocks.last_split(); ++s) {
    worker.blocks.RunSplit(s, split);
    Merge(split, merged);
  }
  WriteOutput(job, worker.blocks, merged);
}

// Splits shared among the workers, then merged in order: the same bits.
void RunSplitsAsTasks(const AttentionJob& job, AttentionScratch& scratch) {
  const int padded = PaddedHeadDim(job.op.head_dim);
  const auto tiles = static_cast<int64_t>(scratch.tiles.size());
  const int64_t splits = CeilDiv(job.op.batch->max_context, kSplitKeys);
  scratch.states.resize(std::max(scratch.states.size(), static_cast<size_t>(tiles * splits)));
  job.context.pool.ParallelFor(tiles * splits, [&](int64_t task, int worker) {
    const AttentionTile& tile = scratch.tiles[static_cast<size_t>(task / splits)];
    AttentionBlocks& blocks = scratch.worker[static_cast<size_t>(worker)].blocks;
    blocks.Start(job, tile);
    const int64_t split = task % splits;
    if (split < blocks.first_split() || split > blocks.last_split()) return;
    blocks.RunSplit(split, scratch.states[static_cast<size_t>(task)].Grow(tile.rows(), padded));
  });
  job.context.pool.ParallelFor(tiles, [&](int64_t t, int worker) {
    const AttentionTile& tile = scratch.tiles[static_cast<size_t>(t)];
    WorkerScratch& own = scratch.worker[static_cast<size_t>(worker)];
    own.blocks.Start(job, tile);
    const AttentionRows merged = own.merged.Grow(tile.rows(), padded);
    std::fill(merged.empty, merged.empty + merged.rows, true);
    for (int64_t s = own.blocks.first_split(); s <= own.blocks.last_split(); ++s) {
      Merge(scratch.states[static_cast<size_t>(t * splits + s)].Grow(tile.rows(), padded), merged);
    }
    WriteOutput(job, own.blocks, merged);
  });
}

void ListTiles(const AttentionJob& job, std::vector<AttentionTile>& tiles) {
  const RowBatch& batch = *job.op.batch;
  tiles.clear();
  for (int64_t s = 0; s < batch.sequences; ++s) {
    const int64_t rows = (batch.first_row[s + 1] - batch.first_row[s]) * job.group;
    for (int64_t begin = 0; begin < rows; begin += kAttentionRows) {
      const int64_t end = std::min(begin + kAttentionRows, rows);
      for (int head = 0; head < job.op.kv_heads; ++head) tiles.push_back({s, head, begin, end});
    }
  }
}

}  // namespace

absl::Status CheckCpuHeadDim(int head_dim) {
  if (head_dim > 0 && head_dim <= kMaxHeadDim && head_dim % kDotTerms == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("head size must be a multiple of ", kDotTerms,
                                                 " up to ", kMaxHeadDim, ", got ", head_dim));
}

AttentionRunner::AttentionRunner(CpuContext& context)
    : context_(context), scratch_(std::make_unique<AttentionScratch>(context.pool.threads())) {}

AttentionRunner::~AttentionRunner() = default;

void AttentionRunner::Run(const Attention& op) {
  assert(CheckCpuHeadDim(op.head_dim).ok() && op.heads % op.kv_heads == 0);
  const AttentionJob job(op, context_);
  ListTiles(job, scratch_->tiles);
  const auto tiles = static_cast<int64_t>(scratch_->tiles.size());
  if (tiles < kTilesPerThread * context_.pool.threads() && op.batch->max_context > kSplitKeys) {
    RunSplitsAsTasks(job, *scratch_);
    return;
  }
  context_.pool.ParallelFor(tiles, [&](int64_t t, int worker) {
    RunTile(job, scratch_->tiles[static_cast<size_t>(t)],
            scratch_->worker[static_cast<size_t>(worker)]);
  });
}

}  // namespace isobit
