#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

#include "kernels/cpu/dot16_limits.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernel.h"
#include "kernels/cpu/growing_array.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/rounding_mode.h"
#include "kernels/numerics/dot16.h"

namespace isobit {
namespace {

// Rows that are prepared at once. Bounds the scratch memory.
constexpr int64_t kRowsPerPass = 256;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A row in the form of the one-row kernel.
struct PreparedRow {
  RowInfo info;
  GrowingArray<ActivationStep> steps;
  GrowingArray<uint8_t> live;
};

struct WorkerScratch {
  PreparedRow row;
  alignas(64) std::array<float, size_t{kTileRows} * kTileLanes> out;
};

}  // namespace

struct GemmScratch {
  explicit GemmScratch(int workers) : worker(static_cast<size_t>(workers)) {}

  PreparedRow row;
  std::vector<RowInfo> info;
  GrowingArray<ActivationStep> steps;  // [rows][steps], in the form of the tile kernel
  GrowingArray<uint8_t> live;          // [rows][steps]
  std::vector<WorkerScratch> worker;
};

namespace {

// What the tasks of one operation share.
struct GemmJob {
  GemmJob(const Gemm& gemm, CpuContext& ctx)
      : op(gemm),
        weight(static_cast<const PackedWeight&>(*gemm.weight)),
        context(ctx),
        kernels(SelectGemmKernels(ctx)),
        epilogue(SelectGemmEpilogue(ctx, gemm.epilogue)),
        steps(weight.padded_cols() / kDotTerms) {}

  const Bf16* Row(int64_t row) const { return op.x + row * weight.cols(); }
  bool FastPathSafe(const RowInfo& row, const PackedWeight::PanelInfo& panel) const {
    return ExponentsAreSafe(row.max_exponent, panel.max_exponent, weight.padded_cols());
  }

  const Gemm& op;
  const PackedWeight& weight;
  CpuContext& context;
  const GemmKernels kernels;
  const GemmEpilogue epilogue;
  const int64_t steps;
};

void PrepareForRowKernel(const GemmJob& job, int64_t row, PreparedRow& prepared) {
  ActivationStep* steps = prepared.steps.Grow(job.steps);
  uint8_t* live = prepared.live.Grow(job.steps);
  prepared.info =
      job.kernels.prepare_row(job.Row(row), job.weight.cols(), ActivationForm::kRow, steps, live);
}

// The 32 outputs of one row and one panel: by the kernel, then literally where it can't answer.
// Returns whether any had to be computed literally.
bool ComputeRow(const GemmJob& job, int64_t row, int64_t panel, const PreparedRow& prepared,
                float* out) {
  const PackedWeight::PanelInfo& info = job.weight.Info(panel);
  const Bf16* weights = job.weight.Panel(panel);
  uint32_t unsafe = ~uint32_t{0};
  if (job.FastPathSafe(prepared.info, info)) {
    const int min_exponent = MinSafeExponent(prepared.info.max_exponent, info.max_exponent);
    const ScopedRoundTowardZero toward_zero;
    unsafe = job.kernels.row(weights, info.zero_lanes, job.steps, prepared.steps.data(),
                             prepared.live.data(), min_exponent, out);
  }
  for (uint32_t left = unsafe; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    out[lane] = DotChain(0.0f, job.Row(row), 1, weights + PackedWeight::LaneElement(lane),
                         kPanelLanes, job.weight.cols());
  }
  return unsafe != 0;
}

void CountTile(const GemmJob& job, bool exact) {
  job.context.gemm_tiles.fetch_add(1, std::memory_order_relaxed);
  if (exact) job.context.gemm_tiles_exact.fetch_add(1, std::memory_order_relaxed);
}

void RunOneRow(const GemmJob& job, GemmScratch& scratch) {
  PrepareForRowKernel(job, 0, scratch.row);
  job.context.pool.ParallelFor(job.weight.panels(), [&](int64_t panel, int) {
    alignas(64) float out[kPanelLanes];
    CountTile(job, ComputeRow(job, 0, panel, scratch.row, out));
    job.epilogue(job.op, 0, panel, out);
  });
}

// Rows [begin, begin + rows) against panels 2 * pair and 2 * pair + 1. Row `begin` stands at
// `first` in the prepared rows.
void RunTile(const GemmJob& job, GemmScratch& scratch, int64_t begin, int64_t first, int rows,
             int64_t pair, WorkerScratch& worker) {
  // A last panel without a partner is computed twice.
  const int64_t panels[2] = {2 * pair, std::min(2 * pair + 1, job.weight.panels() - 1)};
  const bool both = panels[1] != panels[0];
  const RowInfo* info = scratch.info.data() + first;
  const PackedWeight::PanelInfo& p = job.weight.Info(panels[0]);
  const PackedWeight::PanelInfo& q = job.weight.Info(panels[1]);
  PackedWeight::PanelInfo weights;
  weights.max_exponent = std::max(p.max_exponent, q.max_exponent);

  int max_activation = 0;
  for (int r = 0; r < rows; ++r) {
    if (info[r].max_exponent != kNonFiniteExponent) {
      max_activation = std::max(max_activation, info[r].max_exponent);
    }
  }
  bool tile_ok = ExponentsAreSafe(max_activation, weights.max_exponent, job.weight.padded_cols());
  if (tile_ok) {
    GemmTile tile;
    tile.panel[0] = job.weight.Panel(panels[0]);
    tile.panel[1] = job.weight.Panel(panels[1]);
    tile.zero_lanes[0] = p.zero_lanes;
    tile.zero_lanes[1] = q.zero_lanes;
    tile.steps = job.steps;
    tile.rows = rows;
    tile.activations = scratch.steps.data() + first * job.steps;
    tile.live = scratch.live.data() + first * job.steps;
    tile.min_safe_exponent = MinSafeExponent(max_activation, weights.max_exponent);
    const ScopedRoundTowardZero toward_zero;
    tile_ok = job.kernels.tile(tile, worker.out.data());
  }
  bool exact = false;
  for (int r = 0; r < rows; ++r) {
    float* out = worker.out.data() + r * kTileLanes;
    if (!tile_ok || info[r].max_exponent == kNonFiniteExponent || info[r].may_wrap) {
      PrepareForRowKernel(job, begin + r, worker.row);
      exact |= ComputeRow(job, begin + r, panels[0], worker.row, out);
      if (both) exact |= ComputeRow(job, begin + r, panels[1], worker.row, out + kPanelLanes);
    }
    job.epilogue(job.op, begin + r, panels[0], out);
    if (both) job.epilogue(job.op, begin + r, panels[1], out + kPanelLanes);
  }
  CountTile(job, exact);
}

// Rows [begin, end), at most kRowsPerPass.
void RunRows(const GemmJob& job, GemmScratch& scratch, int64_t begin, int64_t end) {
  const int64_t rows = end - begin;
  ActivationStep* steps = scratch.steps.Grow(rows * job.steps);
  uint8_t* live = scratch.live.Grow(rows * job.steps);
  scratch.info.resize(std::max(scratch.info.size(), static_cast<size_t>(rows)));
  job.context.pool.ParallelFor(CeilDiv(rows, kTileRows), [&](int64_t block, int) {
    for (int64_t r = block * kTileRows; r < std::min((block + 1) * kTileRows, rows); ++r) {
      uint8_t* row_live = live + r * job.steps;
      RowInfo& info = scratch.info[static_cast<size_t>(r)];
      info = job.kernels.prepare_row(job.Row(begin + r), job.weight.cols(), ActivationForm::kTile,
                                     steps + r * job.steps, row_live);
      // What is not finite is left to ComputeRow and must not disturb the rest of its tile.
      if (info.max_exponent == kNonFiniteExponent) std::fill(row_live, row_live + job.steps, 0);
    }
  });

  const int64_t pairs = CeilDiv(job.weight.panels(), 2);
  job.context.pool.ParallelFor(CeilDiv(rows, kTileRows) * pairs, [&](int64_t task, int worker) {
    const int64_t first = task / pairs * kTileRows;
    const int count = static_cast<int>(std::min<int64_t>(kTileRows, rows - first));
    RunTile(job, scratch, begin + first, first, count, task % pairs,
            scratch.worker[static_cast<size_t>(worker)]);
  });
}

}  // namespace

GemmRunner::GemmRunner(CpuContext& context)
    : context_(context), scratch_(std::make_unique<GemmScratch>(context.pool.threads())) {}

GemmRunner::~GemmRunner() = default;

void GemmRunner::Run(const Gemm& op) {
  assert(op.epilogue != Gemm::Epilogue::kSiluGate || op.weight->layout() == WeightLayout::kGateUp);
  const GemmJob job(op, context_);
  if (op.rows == 1) return RunOneRow(job, *scratch_);
  for (int64_t begin = 0; begin < op.rows; begin += kRowsPerPass) {
    RunRows(job, *scratch_, begin, std::min(begin + kRowsPerPass, op.rows));
  }
}

}  // namespace isobit
