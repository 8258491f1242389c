#include "kernels/cuda/gemm_plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "kernels/cuda/gemm_instances.h"

namespace isobit::cuda {
namespace {

// Token tiles beyond the fewest that are worth a try.
constexpr int kMoreTokenTiles = 2;
// As many tokens as weight rows in flight, about: the fewest bytes for all multiprocessors.
constexpr int kBandTokens = 2048;
// What a CTA may take (227 KB); barriers included.
constexpr int kMaxSharedBytes = 232448;
// Rounds of tiles up to which an early start makes up for where CTAs lie.
constexpr int kFewRounds = 3;
// More stages cost start-up time (a barrier's initialisation takes tens of cycles) and gain
// nothing.
constexpr int kMaxStages = 24;

constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return DivideUp(a, b) * b; }

// Row tiles no higher than the kernel's, of whole cuts.
struct RowTiles {
  int64_t tiles;
  int64_t unit_groups;  // what the busiest unit works on, together
};

// If there is one round of token tiles, as many tiles as units or a multiple of it, so that all
// units load the same amount.
RowTiles CutRows(const GemmKernelId& kernel, const PackedLayout& weight, int cut_groups,
                 int64_t token_tiles, int most_units) {
  const int64_t cuts = DivideUp(weight.Groups(), cut_groups);
  const int64_t fewest = DivideUp(cuts, kernel.tile_rows / weight.GroupRows() / cut_groups);
  const int64_t tiles = token_tiles == 1 ? std::min(cuts, RoundUp(fewest, most_units)) : fewest;
  const int64_t rounds = DivideUp(tiles * token_tiles, most_units);
  return {tiles, rounds * std::min(weight.Groups(), DivideUp(cuts, tiles) * cut_groups)};
}

std::vector<GemmKernelId> ListKernels() {
  std::vector<GemmKernelId> ids;
  for (int rows : kSingleTileRows) ids.push_back({rows, 1, false});
  for (int rows : kPairTileRows) ids.push_back({rows, 1, true});
  for (int rows : kWideTileRows) ids.push_back({rows, 2, false});
  for (int rows : kWidePairTileRows) ids.push_back({rows, 2, true});
  for (int rows : kWidestTileRows) ids.push_back({rows, 3, false});
  return ids;
}

// What a plan takes, in cycles, for choosing between plans. Memory and multiprocessors work side by
// side; whichever takes longer counts, and a little of the other, the end of the last tiles, when
// there is nothing to load, and part of the pauses at the end of others. The constants are fitted
// to measurements of all kernels on an H200 (PERFORMANCE.md): of 75 cases from 1 to 768 rows the
// plan chosen is within 1% of the fastest in 65 and within 3% in 74.
double EstimateCycles(const GemmPlan& plan, const PackedLayout& weight) {
  constexpr double kMemoryBytesPerCycle = 2770;
  constexpr double kMemoryStartCycles = 1700;
  constexpr double kSingleBoxPenalty = 1.003;  // shorter pieces of memory
  constexpr double kXPenalty = 0.057;          // of a byte of x from L2, beside one from memory
  constexpr double kRereadPenalty = 0.03;      // of weights, a token tile
  constexpr double kSharedBytesPerCycle = 128;
  constexpr double kLoadBytesPerCycle = 74;  // into one multiprocessor
  constexpr double kCopyCycles = 60;         // to start a copy of one or two panels, for one warp
  constexpr double kStageCycles = 50;        // between the wgmmas of two stages
  constexpr double kTileCycles = 380;
  constexpr double kTileRowCycles = 22.7;  // of the epilogue, a row of the tile and warpgroup
  constexpr double kGateRowCycles = 20;    // more, if it has gates; all warpgroups at the same time
  constexpr double kPauseStall = 0.47;     // of a tile's end, when its CTA has another to go
  constexpr double kTallWarpgroup = 1.053;  // of one with 192 rows and more for itself
  constexpr double kPairCycles = 90;
  constexpr double kPairCoupling = 1.015;  // CTAs of a pair wait for each other at every tile
  constexpr double kLateCycles = 2000;     // of a launch that starts when all before have ended
  constexpr double kShallowRing = 1.29;    // of three stages
  // Of warpgroups that take turns: fewer cycles, but more power, and with it a lower clock.
  constexpr double kTurns = 1.23;
  constexpr double kStepOverlap = 0.036, kOverlap = 0.2;

  const double tile_rows = plan.kernel.tile_rows;
  const double warpgroups = plan.kernel.warpgroups;
  const int boxes = BoxesPerStage(plan.kernel.tile_rows, plan.kernel.warpgroups);
  const double stage_steps = 4 * boxes;  // of k16
  const double steps = static_cast<double>(weight.KBoxes()) * kBoxCols / 16;
  const double panels = static_cast<double>(weight.Panels()) / plan.row_tiles;  // of a tile
  const double tiles = static_cast<double>(plan.row_tiles) * plan.token_tiles;
  const double rounds = std::ceil(tiles / plan.units);

  // One k16 step: the tensor core, or its operands in shared memory; loads; starting copies.
  const double multiply = warpgroups * tile_rows / 2;
  const double operands = warpgroups * (64 + tile_rows) * 32 / kSharedBytesPerCycle;
  const double busy = std::max(multiply, operands) + kStageCycles / stage_steps;
  const double load = (std::ceil(panels) * kPanelRows + plan.tokens) * 32 / kLoadBytesPerCycle;
  const double copies = std::ceil(panels / 2) / plan.CtasPerUnit() /
                        WeightWarps(plan.kernel.warpgroups) * boxes * kCopyCycles / stage_steps;
  const double step = std::max({busy, load, copies}) + kStepOverlap * std::min(busy, load);

  const bool takes_turns = TakesTurns(plan.kernel.tile_rows, plan.kernel.warpgroups);
  const double product =
      steps * step * (plan.stages <= 3 ? kShallowRing : 1) * (takes_turns ? kTurns : 1);
  const double end = kTileCycles + tile_rows * (kTileRowCycles * warpgroups +
                                                (weight.gate_up ? kGateRowCycles : 0));
  // In turn, a tile has one warpgroup to store it, but the next one needs not wait for that.
  const double pause = takes_turns ? 0 : end;
  const bool is_coupled = plan.kernel.pair && rounds > 1;
  const double compute =
      (rounds * product + (rounds - 1) * pause) * (is_coupled ? kPairCoupling : 1) +
      (plan.kernel.pair ? kPairCycles : 0);
  const double weight_bytes = static_cast<double>(weight.Bytes()) *
                              (boxes == 1 ? kSingleBoxPenalty : 1) *
                              (1 + kRereadPenalty * (plan.token_tiles - 1));
  const double x_bytes = tiles * plan.CtasPerUnit() * plan.tokens * steps * 16 * sizeof(Bf16);
  const double memory =
      ((weight_bytes + kXPenalty * x_bytes) / kMemoryBytesPerCycle + kMemoryStartCycles) *
      std::max(1.0, 128.0 / std::max(plan.Ctas(), 100));
  const bool is_tall = plan.kernel.warpgroups == 1 && plan.kernel.tile_rows >= 192;
  const double together = std::max(compute, memory) + kOverlap * std::min(compute, memory);
  return together * (is_tall ? kTallWarpgroup : 1) + kPauseStall * (rounds - 1) * pause +
         (takes_turns ? 2 * end : end) + (plan.starts_early || warpgroups > 1 ? 0 : kLateCycles);
}

}  // namespace

std::span<const GemmKernelId> GemmKernels() {
  static const std::vector<GemmKernelId>* const kernels =
      new std::vector<GemmKernelId>(ListKernels());
  return *kernels;
}

int SharedBytes(const GemmPlan& plan) {
  const GemmKernelId& k = plan.kernel;
  const int boxes = BoxesPerStage(k.tile_rows, k.warpgroups);
  return RingBytes(plan.tokens + k.tile_rows, boxes, plan.stages) +
         AllStagingBytes(k.tile_rows, k.warpgroups, plan.tokens) + BarrierBytes(plan.stages);
}

std::string ToString(const GemmPlan& plan) {
  return std::to_string(plan.kernel.tile_rows) + " rows x " + std::to_string(plan.tokens) +
         " tokens" +
         (plan.kernel.warpgroups > 1 ? ", " + std::to_string(plan.kernel.warpgroups) + " warpgroups"
                                     : "") +
         (plan.kernel.pair ? ", pairs" : "") + ", " + std::to_string(plan.stages) + " stages, " +
         std::to_string(plan.row_tiles) + " x " + std::to_string(plan.token_tiles) + " tiles on " +
         std::to_string(plan.Ctas()) + " CTAs";
}

std::optional<GemmPlan> PlanWithKernel(const GemmKernelId& kernel, const PackedLayout& weight,
                                       int64_t rows, int multiprocessors, int tile_tokens) {
  assert(tile_tokens >= 0 && tile_tokens <= MostTokens(kernel));
  assert(rows >= 1 && weight.rows >= 1 && weight.cols >= 1);
  if (kernel.tile_rows % weight.GroupRows() != 0) return std::nullopt;
  const int ctas_per_unit = kernel.pair ? 2 : 1;
  const int most_units = multiprocessors / ctas_per_unit;
  if (most_units < 1) return std::nullopt;

  GemmPlan plan;
  plan.kernel = kernel;
  // Tokens: as few tiles as possible, all of about the same height.
  const int64_t most_tokens = tile_tokens > 0 ? tile_tokens : MostTokens(kernel);
  const int64_t token_tiles = DivideUp(rows, most_tokens * ctas_per_unit);
  plan.token_tiles = static_cast<int>(token_tiles);
  plan.tokens = static_cast<int>(DivideUp(rows, token_tiles * ctas_per_unit));
  plan.band = std::max(1, kBandTokens / (plan.tokens * ctas_per_unit));
  // Weights: cut between panels that lie together (packed_layout.h) only if units have less to do
  // then, as a single one takes as many copies as two.
  RowTiles tiles = CutRows(kernel, weight, 1, token_tiles, most_units);
  if (weight.GroupPanels() == 1 && kernel.tile_rows >= 2 * weight.GroupRows()) {
    const RowTiles together = CutRows(kernel, weight, 2, token_tiles, most_units);
    if (together.tiles <= tiles.tiles && together.unit_groups <= tiles.unit_groups) {
      tiles = together;
      plan.cut_groups = 2;
    }
  }
  plan.row_tiles = static_cast<int>(tiles.tiles);
  plan.units = static_cast<int>(std::min<int64_t>(most_units, plan.row_tiles * token_tiles));

  // CTAs that start where others happen to end lie anywhere. Several of one warpgroup that read the
  // same weights, each by itself, then lose more (10 to 15%) than the start is worth.
  // Larger ones lose 2% when there are many tiles.
  const int64_t rounds = DivideUp(plan.row_tiles * token_tiles, plan.units);
  const bool is_narrow = kernel.warpgroups == 1;
  plan.starts_early = kernel.pair || token_tiles == 1 || (!is_narrow && rounds <= kFewRounds);

  plan.stages = kMaxStages;
  while (SharedBytes(plan) > kMaxSharedBytes) --plan.stages;
  return plan;
}

// More token tiles make sense where x weighs more than the weights of a tile, and all tiles still
// run at once.
std::vector<GemmPlan> PlansWithKernel(const GemmKernelId& kernel, const PackedLayout& weight,
                                      int64_t rows, int multiprocessors) {
  std::vector<GemmPlan> plans;
  const auto first = PlanWithKernel(kernel, weight, rows, multiprocessors);
  if (!first) return plans;
  plans.push_back(*first);
  const int ctas_per_unit = first->CtasPerUnit();
  for (int more = 1; more <= kMoreTokenTiles; ++more) {
    const int64_t tokens = DivideUp(rows, int64_t{first->token_tiles + more} * ctas_per_unit);
    // A kernel of fewer warpgroups does as well.
    if (tokens <= MostTokens(kernel) - kWarpgroupTokens) break;
    if (tokens >= plans.back().tokens) continue;
    const auto plan =
        PlanWithKernel(kernel, weight, rows, multiprocessors, static_cast<int>(tokens));
    if (plan->row_tiles * plan->token_tiles > plan->units) break;
    plans.push_back(*plan);
  }
  return plans;
}

TileOrder OrderOf(const GemmPlan& plan, const PackedLayout& weight) {
  const auto groups = static_cast<int>(weight.Groups());
  const auto cuts = static_cast<int>(DivideUp(groups, plan.cut_groups));
  return {.token_tiles = plan.token_tiles,
          .band = plan.band,
          .row_tiles = plan.row_tiles,
          .groups = groups,
          .cut_groups = plan.cut_groups,
          .tile_cuts = cuts / plan.row_tiles,
          .larger_tiles = cuts % plan.row_tiles};
}

GemmPlan PlanGemm(const PackedLayout& weight, int64_t rows, int multiprocessors) {
  std::optional<GemmPlan> best;
  double best_cycles = 0;
  for (const GemmKernelId& kernel : GemmKernels()) {
    for (const GemmPlan& plan : PlansWithKernel(kernel, weight, rows, multiprocessors)) {
      const double cycles = EstimateCycles(plan, weight);
      if (best && cycles >= best_cycles) continue;
      best = plan;
      best_cycles = cycles;
    }
  }
  assert(best.has_value());
  return *best;
}

}  // namespace isobit::cuda
