#include "kernels/cuda/gemm_plan.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace isobit::cuda {
namespace {

constexpr int kMultiprocessors = 132;

const PackedLayout kLayouts[] = {{6144, 4096, false},   {4096, 4096, false},  {28672, 4096, true},
                                 {4096, 14336, false},  {960, 576, false},    {576, 1536, false},
                                 {3072, 576, true},     {49152, 576, false},  {1, 8, false},
                                 {128256, 4096, false}, {17, 80, false},      {2, 16, true},
                                 {16 * 131, 64, false}, {16 * 263, 64, false}};
const int64_t kRows[] = {1,   7,   8,   9,   63,  64,  65,   127,  128,
                         129, 192, 256, 257, 300, 512, 4096, 70000};

// Every group of panels belongs to exactly one tile for every row of x, and no tile is larger than
// the kernel or empty.
void ExpectCovers(const GemmPlan& plan, const PackedLayout& weight, int64_t rows) {
  const auto groups = static_cast<int>(weight.Groups());
  std::vector<int> seen(static_cast<size_t>(int64_t{groups} * plan.token_tiles), 0);
  const TileOrder order = OrderOf(plan, weight);
  for (int i = 0; i < plan.token_tiles * plan.row_tiles; ++i) {
    const GemmTile tile = TileAt(order, i);
    ASSERT_GE(tile.token_tile, 0);
    ASSERT_LT(tile.token_tile, plan.token_tiles);
    const int panels = tile.groups * weight.GroupPanels();
    ASSERT_GT(panels, 0);
    ASSERT_LE(panels * kPanelRows, plan.kernel.tile_rows);
    for (int g = tile.first_group; g < tile.first_group + tile.groups; ++g) {
      ++seen[static_cast<size_t>(tile.token_tile) * static_cast<size_t>(groups) +
             static_cast<size_t>(g)];
    }
  }
  for (int count : seen) ASSERT_EQ(count, 1);
  const int64_t rows_a_tile = int64_t{plan.tokens} * plan.CtasPerUnit();
  EXPECT_GE(rows_a_tile * plan.token_tiles, rows);
  EXPECT_LT(rows_a_tile * (plan.token_tiles - 1), rows);
}

void ExpectPossible(const GemmPlan& plan) {
  EXPECT_GE(plan.tokens, 1);
  EXPECT_LE(plan.tokens, MostTokens(plan.kernel));
  EXPECT_GE(plan.stages, 2);
  EXPECT_LE(SharedBytes(plan), 232448);
  EXPECT_GE(plan.units, 1);
  EXPECT_LE(plan.Ctas(), kMultiprocessors);
  // The 64-row operand reads past a box of fewer tokens: into the weights, never past the ring.
  const int tail = MostTokens(plan.kernel) * kBoxRowBytes - BoxBytes(plan.tokens);
  const int boxes = BoxesPerStage(plan.kernel.tile_rows, plan.kernel.warpgroups);
  EXPECT_LE(tail, RingBytes(plan.kernel.tile_rows, boxes, plan.stages));
}

TEST(GemmPlan, EveryKernelCoversEveryOutputOnce) {
  for (const PackedLayout& weight : kLayouts) {
    for (int64_t rows : kRows) {
      for (const GemmKernelId& kernel : GemmKernels()) {
        const auto plans = PlansWithKernel(kernel, weight, rows, kMultiprocessors);
        ASSERT_EQ(!plans.empty(), kernel.tile_rows % weight.GroupRows() == 0);
        for (const GemmPlan& plan : plans) {
          SCOPED_TRACE(ToString(plan));
          ExpectPossible(plan);
          ExpectCovers(plan, weight, rows);
        }
      }
    }
  }
}

// Fewer tokens than the kernel multiplies: as many tiles as these need.
TEST(GemmPlan, TilesAreNoHigherThanAskedFor) {
  const PackedLayout weight = {4096, 14336, false};
  for (const GemmKernelId& kernel : GemmKernels()) {
    for (int tile_tokens = 1; tile_tokens <= MostTokens(kernel); tile_tokens += 9) {
      for (int64_t rows : kRows) {
        const auto plan = PlanWithKernel(kernel, weight, rows, kMultiprocessors, tile_tokens);
        SCOPED_TRACE(ToString(*plan));
        const int64_t unit_tokens = int64_t{tile_tokens} * plan->CtasPerUnit();
        EXPECT_EQ(plan->token_tiles, (rows + unit_tokens - 1) / unit_tokens);
        EXPECT_LE(plan->tokens, tile_tokens);
        ExpectPossible(*plan);
      }
    }
  }
}

// Two panels that lie together are copied at once, so tiles keep them unless others would be
// higher.
TEST(GemmPlan, TilesKeepTwoPanelsTogether) {
  const PackedLayout weight = {28672, 4096, false};
  const auto together = PlanWithKernel({224, 2, false}, weight, 128, kMultiprocessors);
  EXPECT_EQ(together->cut_groups, 2);
  const TileOrder order = OrderOf(*together, weight);
  for (int i = 0; i < together->row_tiles; ++i) EXPECT_EQ(TileAt(order, i).first_group % 2, 0);
  // 384 panels for 132 CTAs: three each.
  const PackedLayout three = {6144, 4096, false};
  EXPECT_EQ(PlanWithKernel({48, 1, false}, three, 1, kMultiprocessors)->cut_groups, 1);
  EXPECT_EQ(PlanWithKernel({64, 1, false}, three, 1, kMultiprocessors)->cut_groups, 1);
  // Gate and up panels of an output lie together anyway.
  const PackedLayout gated = {28672, 4096, true};
  EXPECT_EQ(PlanWithKernel({64, 1, false}, gated, 1, kMultiprocessors)->cut_groups, 1);
  // A last panel without another beside it.
  const PackedLayout odd = {16 * 263, 4096, false};
  const auto last = PlanWithKernel({32, 1, false}, odd, 1, kMultiprocessors);
  EXPECT_EQ(last->cut_groups, 2);
  EXPECT_EQ(TileAt(OrderOf(*last, odd), last->row_tiles - 1).groups, 1);
}

// 256 rows as three tiles of 86 with 96 weight rows each, not two of 128 with 64.
TEST(GemmPlan, MoreTokenTilesAreTried) {
  const PackedLayout weight = {4096, 14336, false};
  const auto plans = PlansWithKernel({96, 2, false}, weight, 256, kMultiprocessors);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].tokens, 128);
  EXPECT_EQ(plans[1].tokens, 86);
  EXPECT_EQ(plans[1].token_tiles, 3);
  EXPECT_EQ(plans[1].Ctas(), 129);
}

TEST(GemmPlan, ChoosesForEveryNumberOfRows) {
  for (const PackedLayout& weight : kLayouts) {
    for (int64_t rows = 1; rows <= 520; ++rows) {
      const GemmPlan plan = PlanGemm(weight, rows, kMultiprocessors);
      SCOPED_TRACE(ToString(plan));
      ExpectPossible(plan);
    }
  }
}

TEST(GemmPlan, WorksOnOtherCards) {
  for (int multiprocessors : {1, 2, 78, 114}) {
    for (const PackedLayout& weight : kLayouts) {
      const GemmPlan plan = PlanGemm(weight, 100, multiprocessors);
      EXPECT_LE(plan.Ctas(), multiprocessors);
      ExpectCovers(plan, weight, 100);
    }
  }
}

TEST(PackedLayout, EveryChunkHasItsOwnPlace) {
  for (const PackedLayout& weight : {PackedLayout{49, 200, false}, PackedLayout{33, 200, false},
                                     PackedLayout{96, 64, true}, PackedLayout{70, 136, true}}) {
    std::vector<bool> taken(static_cast<size_t>(weight.Bytes() / 16), false);
    for (int64_t row = 0; row < weight.rows; ++row) {
      for (int64_t chunk = 0; chunk < (weight.cols + 7) / 8; ++chunk) {
        const int64_t offset = weight.ChunkOffset(row, chunk);
        ASSERT_EQ(offset % 16, 0);
        ASSERT_GE(offset, 0);
        ASSERT_LT(offset, weight.Bytes());
        ASSERT_FALSE(taken[static_cast<size_t>(offset / 16)]);
        taken[static_cast<size_t>(offset / 16)] = true;
      }
    }
  }
}

}  // namespace
}  // namespace isobit::cuda
