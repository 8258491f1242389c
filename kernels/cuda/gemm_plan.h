#ifndef ISOBIT_KERNELS_CUDA_GEMM_PLAN_H_
#define ISOBIT_KERNELS_CUDA_GEMM_PLAN_H_

// How a GEMM is cut into tiles. Nothing here can be seen in the bits: K is never split, and every
// output is one chain whatever the plan. So a plan may look at the batch, and is chosen by speed.
//
// A unit is one CTA, or a pair of CTAs (a cluster) that shares weights: each loads half of the
// weights and the copy engine delivers them to both. A unit works on tiles: some panels of the
// weights times `tokens` rows of x a CTA. Tiles are dealt to units round robin.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/packed_layout.h"

namespace isobit::cuda {

// A compiled kernel.
struct GemmKernelId {
  int tile_rows = 0;   // largest number of weight rows in a tile: N of its wgmma
  int warpgroups = 0;  // that multiply; 64 tokens each
  bool pair = false;   // units are pairs of CTAs

  friend bool operator==(const GemmKernelId&, const GemmKernelId&) = default;
};

// All of them.
std::span<const GemmKernelId> GemmKernels();

struct GemmPlan {
  GemmKernelId kernel;
  int tokens = 0;       // of x for one CTA, at most MostTokens(kernel)
  int token_tiles = 0;  // that cover all rows of x; a pair takes 2 * tokens rows
  int band = 0;         // token tiles that are taken together, see TileAt
  int row_tiles = 0;    // that cover the weights, as evenly as cuts go
  int cut_groups = 1;   // tiles begin at multiples of so many groups of panels
  int stages = 0;       // of the ring in shared memory
  int units = 0;        // that run
  // Whether it gains by starting before the kernels in front have ended (GemmLaunch::early_start).
  bool starts_early = true;

  int CtasPerUnit() const { return kernel.pair ? 2 : 1; }
  int Ctas() const { return units * CtasPerUnit(); }
};

// For people: "64 rows x 2 x 64 tokens, pair, 128 CTAs, ...".
std::string ToString(const GemmPlan& plan);

// Whether two warpgroups take tiles in turn: one stores while the other multiplies, with 128 tokens
// each. Otherwise all work on one tile, 64 tokens each. That suits many tiles a CTA; higher ones
// don't fit a warpgroup's registers.
ISOBIT_HOST_DEVICE constexpr bool TakesTurns(int tile_rows, int warpgroups) {
  return warpgroups == 2 && tile_rows == 160;
}
// Whether the warpgroups that multiply need more registers than an even share. The loaders are then
// a whole warpgroup, which gives its own away.
ISOBIT_HOST_DEVICE constexpr bool MovesRegisters(int tile_rows, int warpgroups) {
  return warpgroups == 2 && (tile_rows >= 192 || TakesTurns(tile_rows, warpgroups));
}
// Warps that load weights, each its share of the panels: to start a copy of 2 KB takes one warp 60
// to 70 cycles. Three warpgroups multiply long enough for one.
ISOBIT_HOST_DEVICE constexpr int WeightWarps(int warpgroups) { return warpgroups == 3 ? 1 : 2; }
// Warpgroups that multiply, the warps that load weights and one that loads x.
ISOBIT_HOST_DEVICE constexpr int CtaThreads(int tile_rows, int warpgroups) {
  const int loaders =
      MovesRegisters(tile_rows, warpgroups) ? 128 : 32 * (WeightWarps(warpgroups) + 1);
  return 128 * warpgroups + loaders;
}

// Boxes of 64 k that one stage of the ring holds. Two save half of the waiting between stages,
// which two warpgroups don't notice, and make a ring of few stages.
ISOBIT_HOST_DEVICE constexpr int BoxesPerStage(int tile_rows, int warpgroups) {
  return tile_rows <= (warpgroups == 1 ? 96 : 48) ? 2 : 1;
}

// Shared memory of a CTA, in this order: x boxes of all stages, weight boxes of all stages, staging
// areas, barriers. Every box begins at a multiple of 8 rows, after which the swizzle repeats.
ISOBIT_HOST_DEVICE constexpr int BoxBytes(int rows) { return (rows + 7) / 8 * 8 * kBoxRowBytes; }
ISOBIT_HOST_DEVICE constexpr int RingBytes(int rows, int boxes, int stages) {
  return stages * boxes * BoxBytes(rows);
}
// Each warp that multiplies has a staging area for its 16 tokens and this many outputs.
inline constexpr int kWarpTokens = 16;
ISOBIT_HOST_DEVICE constexpr int StagingOutputs(int tile_rows) {
  return tile_rows < 64 ? tile_rows : 64;
}
// Bytes from one token's row to the next: an odd multiple of 32, so that four rows of 32 bytes,
// which half a warp writes at once, have banks of their own.
ISOBIT_HOST_DEVICE constexpr int StagingPitch(int tile_rows) {
  return (2 * StagingOutputs(tile_rows) + 32) / 64 * 64 + 32;
}
ISOBIT_HOST_DEVICE constexpr int StagingBytes(int tile_rows) {
  return kWarpTokens * StagingPitch(tile_rows);
}
// For `tokens` tokens: warps that have none need no staging area.
ISOBIT_HOST_DEVICE constexpr int AllStagingBytes(int tile_rows, int warpgroups, int tokens) {
  const int warps =
      TakesTurns(tile_rows, warpgroups) ? 4 * warpgroups : (tokens + kWarpTokens - 1) / kWarpTokens;
  return warps * StagingBytes(tile_rows);
}
// Two for each stage.
ISOBIT_HOST_DEVICE constexpr int BarrierBytes(int stages) { return 16 * stages; }

int SharedBytes(const GemmPlan& plan);

// What a kernel multiplies at once, for one CTA.
inline constexpr int kWarpgroupTokens = 64;
constexpr int MostTokens(const GemmKernelId& kernel) {
  return kWarpgroupTokens * kernel.warpgroups;
}

// The plan of a given kernel with as few token tiles as possible, or nothing if the kernel can't do
// it (tiles that would cut a group of panels). tile_tokens: rows of x for one CTA are at most so
// many; 0 stands for MostTokens.
std::optional<GemmPlan> PlanWithKernel(const GemmKernelId& kernel, const PackedLayout& weight,
                                       int64_t rows, int multiprocessors, int tile_tokens = 0);

// All plans of a kernel that are worth a try: that one, and some with more token tiles.
std::vector<GemmPlan> PlansWithKernel(const GemmKernelId& kernel, const PackedLayout& weight,
                                      int64_t rows, int multiprocessors);

// The plan to use for rows >= 1.
GemmPlan PlanGemm(const PackedLayout& weight, int64_t rows, int multiprocessors);

// ---- The order of tiles, for host and device

// One tile of a unit: some groups of panels of the weights (packed_layout.h).
struct GemmTile {
  int token_tile;
  int first_group;
  int groups;
};

struct TileOrder {
  int token_tiles;
  int band;
  int row_tiles;
  int groups;        // in all
  int cut_groups;    // what row tiles are multiples of, but for the last one
  int tile_cuts;     // of a row tile
  int larger_tiles;  // row tiles, the first ones, that have one more
};
TileOrder OrderOf(const GemmPlan& plan, const PackedLayout& weight);

// Tile `index` of row_tiles * token_tiles. Token tiles are taken in bands of `band`: within a band
// all of its tokens for one row tile, then the next row tile, so that x and the weights of all
// tiles in flight are shared by many.
ISOBIT_HOST_DEVICE constexpr GemmTile TileAt(const TileOrder& o, int index) {
  const int tiles_per_band = o.band * o.row_tiles;
  const int first_token_tile = index / tiles_per_band * o.band;
  const int left = o.token_tiles - first_token_tile;
  const int width = left < o.band ? left : o.band;
  const int in_band = index % tiles_per_band;
  const int row_tile = in_band / width;
  const bool is_larger = row_tile < o.larger_tiles;
  const int first_group =
      (row_tile * o.tile_cuts + (is_larger ? row_tile : o.larger_tiles)) * o.cut_groups;
  const int groups = (o.tile_cuts + (is_larger ? 1 : 0)) * o.cut_groups;
  const int groups_left = o.groups - first_group;
  return {first_token_tile + in_band - row_tile * width, first_group,
          groups < groups_left ? groups : groups_left};
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_PLAN_H_
