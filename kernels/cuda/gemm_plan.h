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
  int tokens = 0;       // of x for one CTA, a multiple of 8, at most 64 * warpgroups
  int token_tiles = 0;  // that cover all rows of x; a pair takes 2 * tokens rows
  int band = 0;         // token tiles that are taken together, see TileAt
  int row_tiles = 0;    // that cover the weights, as evenly as groups of panels go
  int stages = 0;       // of the ring in shared memory
  int units = 0;        // that run

  int CtasPerUnit() const { return kernel.pair ? 2 : 1; }
  int Ctas() const { return units * CtasPerUnit(); }
};

// For people: "64 rows x 2 x 64 tokens, pair, 128 CTAs, ...".
std::string ToString(const GemmPlan& plan);

// Warpgroups that multiply, a warp that loads weights and one that loads x.
ISOBIT_HOST_DEVICE constexpr int CtaThreads(int warpgroups) { return 128 * warpgroups + 64; }

// Boxes of 64 k that one stage of the ring holds.
ISOBIT_HOST_DEVICE constexpr int BoxesPerStage(int tile_rows) { return tile_rows <= 96 ? 2 : 1; }

// Shared memory of a CTA, in this order: x boxes of all stages, weight boxes of all stages, staging
// areas, barriers.
ISOBIT_HOST_DEVICE constexpr int XBytes(int tile_rows, int tokens, int stages) {
  return stages * BoxesPerStage(tile_rows) * tokens * kBoxRowBytes;
}
ISOBIT_HOST_DEVICE constexpr int WeightBytes(int tile_rows, int stages) {
  return stages * BoxesPerStage(tile_rows) * tile_rows * kBoxRowBytes;
}
// Each warp that multiplies has a staging area for its 16 tokens and this many outputs.
inline constexpr int kWarpTokens = 16;
ISOBIT_HOST_DEVICE constexpr int StagingOutputs(int tile_rows) {
  return tile_rows < 128 ? tile_rows : 128;
}
// Bytes from one token's row to the next. The 16 bytes more keep the threads of a warp, which write
// eight rows at once, off each other's banks.
ISOBIT_HOST_DEVICE constexpr int StagingPitch(int tile_rows) {
  return 2 * StagingOutputs(tile_rows) + 16;
}
ISOBIT_HOST_DEVICE constexpr int StagingBytes(int tile_rows) {
  return kWarpTokens * StagingPitch(tile_rows);
}
// For `tokens` tokens: warps that have none need no staging area.
ISOBIT_HOST_DEVICE constexpr int AllStagingBytes(int tile_rows, int tokens) {
  return (tokens + kWarpTokens - 1) / kWarpTokens * StagingBytes(tile_rows);
}
// Two for each stage.
ISOBIT_HOST_DEVICE constexpr int BarrierBytes(int stages) { return 16 * stages; }

int SharedBytes(const GemmPlan& plan);

// The plan of a given kernel, or nothing if the kernel can't do it (tiles that would cut a
// group of panels).
std::optional<GemmPlan> PlanWithKernel(const GemmKernelId& kernel, const PackedLayout& weight,
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

// Tile `index` of row_tiles * token_tiles. Token tiles are taken in bands of `band`: within a band
// all of its tokens for one row tile, then the next row tile, so that x and the weights of all
// tiles in flight are shared by many. Row tile r holds groups [G r / R, G (r + 1) / R).
ISOBIT_HOST_DEVICE constexpr GemmTile TileAt(int index, int token_tiles, int band, int row_tiles,
                                             int groups) {
  const int tiles_per_band = band * row_tiles;
  const int first_token_tile = index / tiles_per_band * band;
  const int left = token_tiles - first_token_tile;
  const int width = left < band ? left : band;
  const int in_band = index % tiles_per_band;
  const int row_tile = in_band / width;
  const auto first = static_cast<int>(int64_t{groups} * row_tile / row_tiles);
  const auto end = static_cast<int>(int64_t{groups} * (row_tile + 1) / row_tiles);
  return {first_token_tile + in_band - row_tile * width, first, end - first};
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_PLAN_H_
