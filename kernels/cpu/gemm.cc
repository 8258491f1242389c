#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/activation_step.h"
#include "kernels/cpu/dot16_limits.h"
#include "kernels/cpu/gemm_epilogue.h"
#include "kernels/cpu/gemm_kernel.h"
#include "kernels/cpu/growing_array.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/rounding_mode.h"
#include "kernels/numerics/dot16.h"

namespace isobit {
namespace {

// Tasks of a single row: enough that threads finish together.
constexpr int64_t kRowTasksPerThread = 3;

// Rows that are prepared at once. Bounds the scratch memory.
constexpr int64_t kRowsPerPass = 256;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A row in the form of the one-row kernel.
struct PreparedRow {
  ExponentRange exponents;
  GrowingArray<ActivationStep> steps;
  GrowingArray<StepKind> kinds;
};

struct WorkerScratch {
  PreparedRow row;
  alignas(64) std::array<float, size_t{kTileRows} * kTileLanes> out;
};

}  // namespace

struct GemmScratch {
  explicit GemmScratch(int workers) : worker(static_cast<size_t>(workers)) {}

  PreparedRow row;
  // Rows in the form of the tile kernel.
  GrowingArray<ExponentRange> exponents;  // [rows]
  GrowingArray<ActivationStep> steps;     // [rows][steps]
  GrowingArray<StepKind> kinds;           // [rows][steps]
  std::vector<WorkerScratch> worker;
};

namespace {

// What the tasks of one operation share.
struct GemmJob {
  GemmJob(const Gemm& gemm, CpuContext& ctx)
      : op(gemm),
        weight(static_cast<const PackedWeight&>(*gemm.weight)),
        context(ctx),
        prepare_row(SelectPrepareRow(ctx)),
        kernels(SelectGemmKernels(ctx)),
        epilogue(SelectGemmEpilogue(ctx, gemm.epilogue)),
        steps(weight.padded_cols() / kDotTerms) {}

  const Bf16* Row(int64_t row) const { return op.x + row * weight.cols(); }

  const Gemm& op;
  const PackedWeight& weight;
  CpuContext& context;
  const PrepareRowFunction prepare_row;
  const GemmKernels kernels;
  const GemmEpilogue epilogue;
  const int64_t steps;
};

void PrepareForRowKernel(const GemmJob& job, int64_t row, PreparedRow& prepared) {
  prepared.exponents =
      job.prepare_row(job.Row(row), job.weight.cols(), ActivationForm::kRow,
                      prepared.steps.Grow(job.steps), prepared.kinds.Grow(job.steps));
}

// The 32 outputs of one row and one panel: by the kernel, then literally where it can't answer.
// Returns whether any had to be computed literally.
bool ComputeRow(const GemmJob& job, int64_t row, int64_t panel, const PreparedRow& prepared,
                float* out) {
  const ExponentRange& weight_exponents = job.weight.Exponents(panel);
  const Bf16* weights = job.weight.Panel(panel);
  uint32_t unsafe = ~uint32_t{0};
  if (ExponentsAreSafe(prepared.exponents, weight_exponents, job.weight.cols())) {
    const int required = RequiredExponent(prepared.exponents, weight_exponents);
    const ScopedRoundTowardZero toward_zero;
    unsafe = job.kernels.row(weights, job.steps, prepared.steps.data(), prepared.kinds.data(),
                             required, out);
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
  // Neighbouring panels go to one task: the kernel fetches ahead beyond the end of a panel, and
  // starts from cold memory where a task does.
  const int64_t panels = job.weight.panels();
  const int64_t panels_per_task = CeilDiv(panels, kRowTasksPerThread * job.context.pool.threads());
  job.context.pool.ParallelFor(CeilDiv(panels, panels_per_task), [&](int64_t task, int) {
    const int64_t end = std::min((task + 1) * panels_per_task, panels);
    for (int64_t panel = task * panels_per_task; panel < end; ++panel) {
      alignas(64) float out[kPanelLanes];
      CountTile(job, ComputeRow(job, 0, panel, scratch.row, out));
      job.epilogue(job.op, 0, panel, out);
    }
  });
}

// Rows of the operation that were prepared at once; row `begin` is the first.
struct RowRange {
  int64_t begin;
  int64_t end;
};

void PrepareRows(const GemmJob& job, RowRange pass, GemmScratch& scratch) {
  const int64_t rows = pass.end - pass.begin;
  ExponentRange* exponents = scratch.exponents.Grow(rows);
  ActivationStep* steps = scratch.steps.Grow(rows * job.steps);
  StepKind* kinds = scratch.kinds.Grow(rows * job.steps);
  job.context.pool.ParallelFor(CeilDiv(rows, kTileRows), [&](int64_t block, int) {
    for (int64_t r = block * kTileRows; r < std::min((block + 1) * kTileRows, rows); ++r) {
      exponents[r] =
          job.prepare_row(job.Row(pass.begin + r), job.weight.cols(), ActivationForm::kTile,
                          steps + r * job.steps, kinds + r * job.steps);
    }
  });
}

// Prepared rows [first, first + rows) against two panels. Returns false if the result can't be
// used; rows that are not finite are zeros.
bool ComputeTile(const GemmJob& job, const GemmScratch& scratch, int64_t first, int rows,
                 const int64_t (&panels)[2], float* out) {
  ExponentRange activations;
  for (int r = 0; r < rows; ++r) {
    const ExponentRange& row = scratch.exponents.data()[first + r];
    if (row.finite()) activations.Include(row);
  }
  ExponentRange weights = job.weight.Exponents(panels[0]);
  weights.Include(job.weight.Exponents(panels[1]));
  if (!ExponentsAreSafe(activations, weights, job.weight.cols())) return false;

  GemmTile tile;
  tile.panel[0] = job.weight.Panel(panels[0]);
  tile.panel[1] = job.weight.Panel(panels[1]);
  tile.steps = job.steps;
  tile.rows = rows;
  tile.activations = scratch.steps.data() + first * job.steps;
  tile.kinds = scratch.kinds.data() + first * job.steps;
  TileCheck check;
  {
    const ScopedRoundTowardZero toward_zero;
    check = job.kernels.tile(tile, out);
  }
  return !check.wrapped && check.min_exponent >= RequiredExponent(activations, weights);
}

// Rows [first, first + rows) of a pass against panels 2 * pair and 2 * pair + 1.
void RunTile(const GemmJob& job, const GemmScratch& scratch, RowRange pass, int64_t first, int rows,
             int64_t pair, WorkerScratch& worker) {
  // A last panel without a partner is computed twice.
  const int64_t panels[2] = {2 * pair, std::min(2 * pair + 1, job.weight.panels() - 1)};
  const int distinct = panels[0] == panels[1] ? 1 : 2;
  const bool tile_ok = ComputeTile(job, scratch, first, rows, panels, worker.out.data());
  bool exact = false;
  for (int r = 0; r < rows; ++r) {
    const int64_t row = pass.begin + first + r;
    const bool row_ok = tile_ok && scratch.exponents.data()[first + r].finite();
    if (!row_ok) PrepareForRowKernel(job, row, worker.row);
    for (int i = 0; i < distinct; ++i) {
      float* out = worker.out.data() + r * kTileLanes + i * kPanelLanes;
      if (!row_ok) exact |= ComputeRow(job, row, panels[i], worker.row, out);
      job.epilogue(job.op, row, panels[i], out);
    }
  }
  CountTile(job, exact);
}

// Rows of a tile, chosen so that the last thread is done as early as possible: high tiles unpack
// weights for more rows, which costs about as much as one row, low ones share out evenly.
int64_t TileHeight(int64_t rows, int64_t pairs, int threads) {
  constexpr int64_t kLowest = 4;
  int64_t best = kTileRows;
  int64_t best_cost = std::numeric_limits<int64_t>::max();
  for (int64_t blocks = CeilDiv(rows, kTileRows); blocks <= CeilDiv(rows, kLowest); ++blocks) {
    const int64_t height = CeilDiv(rows, blocks);
    const int64_t cost = CeilDiv(blocks * pairs, threads) * (height + 1);
    if (cost >= best_cost) continue;
    best = height;
    best_cost = cost;
  }
  return best;
}

void RunRows(const GemmJob& job, RowRange pass, GemmScratch& scratch) {
  PrepareRows(job, pass, scratch);
  const int64_t rows = pass.end - pass.begin;
  const int64_t pairs = CeilDiv(job.weight.panels(), 2);
  const int64_t height = TileHeight(rows, pairs, job.context.pool.threads());
  job.context.pool.ParallelFor(CeilDiv(rows, height) * pairs, [&](int64_t task, int worker) {
    const int64_t first = task / pairs * height;
    const int count = static_cast<int>(std::min(height, rows - first));
    RunTile(job, scratch, pass, first, count, task % pairs,
            scratch.worker[static_cast<size_t>(worker)]);
  });
}

}  // namespace

GemmRunner::GemmRunner(CpuContext& context)
    : context_(context), scratch_(std::make_unique<GemmScratch>(context.pool.threads())) {}

GemmRunner::~GemmRunner() = default;

void GemmRunner::Run(const Gemm& op) {
  assert(!IsGate(op.epilogue) || op.weight->layout() == WeightLayout::kGateUp);
  const GemmJob job(op, context_);
  if (op.rows == 1) return RunOneRow(job, *scratch_);
  for (int64_t begin = 0; begin < op.rows; begin += kRowsPerPass) {
    RunRows(job, {begin, std::min(begin + kRowsPerPass, op.rows)}, *scratch_);
  }
}

}  // namespace isobit
