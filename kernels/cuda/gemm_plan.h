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
  int row_tiles = 0;    // that cover the panels, as evenly as panels go
  int stages = 0;       // of the ring in shared memory
  int units = 0;        // that run

  int CtasPerUnit() const { return kernel.pair ? 2 : 1; }
  int Ctas() const { return units * CtasPerUnit(); }
};

// For people: "64 rows x 2 x 64 tokens, pair, 128 CTAs, ...".
std::string ToString(const GemmPlan& plan);

// Boxes of 64 k that one stage of the ring holds.
constexpr int BoxesPerStage(int tile_rows) { return tile_rows <= 96 ? 2 : 1; }

// Bytes of shared memory that the kernel of this plan takes.
int SharedBytes(const GemmPlan& plan);

// The plan of a given kernel, or nothing if the kernel can't do it (interleaved panels in a tile
// that is no multiple of 32 rows).
std::optional<GemmPlan> PlanWithKernel(const GemmKernelId& kernel, const PackedLayout& weight,
                                       int64_t rows, int multiprocessors);

// The plan to use for rows >= 1.
GemmPlan PlanGemm(const PackedLayout& weight, int64_t rows, int multiprocessors);

// ---- The order of tiles, for host and device

// One tile of a unit.
struct GemmTile {
  int token_tile;
  int first_panel;
  int panels;
};

// Token tiles are taken in groups of this many, so that x and the weights of all tiles in flight
// stay in L2.
inline constexpr int kTokenTilesPerGroup = 16;

// Tile `index` of row_tiles * token_tiles. Row tile r holds panels [P r / R, P (r + 1) / R).
ISOBIT_HOST_DEVICE constexpr GemmTile TileAt(int index, int token_tiles, int row_tiles,
                                             int panels) {
  const int tiles_per_group = kTokenTilesPerGroup * row_tiles;
  const int group = index / tiles_per_group;
  const int first_token_tile = group * kTokenTilesPerGroup;
  const int left = token_tiles - first_token_tile;
  const int width = left < kTokenTilesPerGroup ? left : kTokenTilesPerGroup;
  const int in_group = index - group * tiles_per_group;
  const int row_tile = in_group / width;
  const auto first = static_cast<int>(int64_t{panels} * row_tile / row_tiles);
  const auto end = static_cast<int>(int64_t{panels} * (row_tile + 1) / row_tiles);
  return {first_token_tile + in_group - row_tile * width, first, end - first};
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_PLAN_H_
