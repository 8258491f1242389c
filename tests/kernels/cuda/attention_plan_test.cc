// What the plan kernel makes of batches for the prefill kernel: tiles that hold every row once, the
// longest first, cut where, and only where, that brings a launch to an earlier end.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <queue>
#include <vector>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_prefill_work.h"
#include "tests/kernels/cuda/attention_plan_run.h"

namespace isobit {
namespace {

constexpr int kCtas = 132;

class AttentionPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU";
  }
};

int KeyTiles(const cuda::KeyRange& keys) {
  return keys.last / cuda::kPrefillTileKeys - keys.first / cuda::kPrefillTileKeys + 1;
}

// When the last CTA ends, in tiles of keys, if CTAs take the works of a plan in turn and each work
// costs `kWorkCost` more than its keys.
int LastEnd(const PrefillPlan& plan, const AttentionShape& shape, bool cut) {
  constexpr int kWorkCost = 4;
  cuda::PlanCounts counts = plan.counts;
  if (!cut) {
    counts.prefill_cut_tiles = 0;
    counts.prefill_long_tiles = counts.prefill_tiles;
  }
  const cuda::Divisor group(shape.heads / shape.kv_heads);
  const cuda::PrefillWorks works(counts, plan.tiles.data(), shape.kv_heads, shape.kv_heads, group,
                                 shape.window);
  std::priority_queue<int, std::vector<int>, std::greater<>> ends;
  for (int cta = 0; cta < kCtas; ++cta) ends.push(0);
  int last = 0;
  for (int i = 0;; ++i) {
    const cuda::PrefillWork work = works.At(i);
    if (work.tile.rows == 0) return last;
    const int end = ends.top() + KeyTiles(work.Keys(group, shape.window)) + kWorkCost;
    ends.pop();
    ends.push(end);
    last = std::max(last, end);
  }
}

// Every row of the sequences that are prefilled is in one tile.
void ExpectAllRows(const PrefillPlan& plan, const AttentionShape& shape,
                   const std::vector<SequenceRows>& rows) {
  const int group = shape.heads / shape.kv_heads;
  std::vector<std::vector<int>> tiles_of(rows.size());
  for (const cuda::AttentionTile& tile : plan.tiles) {
    ASSERT_LT(static_cast<size_t>(tile.sequence), rows.size());
    auto& seen = tiles_of[static_cast<size_t>(tile.sequence)];
    seen.resize(static_cast<size_t>(rows[static_cast<size_t>(tile.sequence)].rows * group));
    ASSERT_EQ(tile.position, rows[static_cast<size_t>(tile.sequence)].first);
    ASSERT_LE(static_cast<size_t>(tile.packed + tile.rows), seen.size());
    for (int i = 0; i < tile.rows; ++i) ++seen[static_cast<size_t>(tile.packed + i)];
  }
  for (size_t s = 0; s < rows.size(); ++s) {
    EXPECT_EQ(tiles_of[s].empty(), rows[s].rows * group < 64) << s;
    for (int count : tiles_of[s]) ASSERT_EQ(count, 1);
  }
}

void ExpectLongestFirst(const PrefillPlan& plan, const AttentionShape& shape) {
  constexpr int kStep = 128;  // tiles are told apart by so many keys
  const cuda::Divisor group(shape.heads / shape.kv_heads);
  int before = 1 << 30;
  for (const cuda::AttentionTile& tile : plan.tiles) {
    const cuda::KeyRange keys = tile.KeysOfAny(group, shape.window);
    const int length = (keys.last - keys.first) / kStep;
    EXPECT_LE(length, before);
    before = length;
  }
}

struct Batch {
  const char* name;
  AttentionShape shape;
  std::vector<SequenceRows> rows;
  bool is_cut;
};

TEST_F(AttentionPlanTest, CutsWhereItGains) {
  const AttentionShape llama = {32, 8, 128};
  const Batch batches[] = {
      {"a chunk behind a long text", llama, {{14336, 2048}}, true},
      {"behind a shorter one", llama, {{6144, 2048}}, true},
      {"just more tiles than CTAs", llama, {{8192, 512}, {8192, 512}}, true},
      {"64/8 heads", {64, 8, 128}, {{14336, 2048}}, true},
      {"one key head", {32, 1, 128}, {{9000, 1600}}, true},
      {"heads of 256", {16, 8, 256}, {{6000, 1200}}, true},
      {"a window", {32, 8, 128, 16, 4096}, {{9000, 1000}}, true},
      {"and short texts", llama, {{14336, 1024}, {0, 300}, {0, 100}, {5000, 1}}, true},
      {"fewer tiles than CTAs", llama, {{14336, 700}}, false},
      {"as many tiles as CTAs", {33, 33, 128}, {{14336, 768}}, false},
      {"from the beginning", llama, {{0, 4096}}, false},
      {"from the beginning, long", llama, {{0, 16384}}, false},
      {"several", llama, {{0, 4096}, {0, 4096}, {0, 4096}, {0, 4096}}, false},
      {"short texts", llama, std::vector<SequenceRows>(40, {0, 500}), false},
      {"decode", llama, {{3000, 1}, {500, 1}}, false},
  };
  for (const Batch& batch : batches) {
    SCOPED_TRACE(batch.name);
    const PrefillPlan plan = PlanPrefillOnGpu(batch.shape, batch.rows, kCtas);
    ExpectAllRows(plan, batch.shape, batch.rows);
    ExpectLongestFirst(plan, batch.shape);
    EXPECT_EQ(plan.counts.prefill_cut_tiles > 0, batch.is_cut);
    if (!batch.is_cut) {
      EXPECT_EQ(plan.counts.prefill_long_tiles, plan.counts.prefill_tiles);
      continue;
    }
    EXPECT_EQ(plan.counts.prefill_cut_tiles, cuda::PrefillCutTiles(kCtas, batch.shape.kv_heads));
    EXPECT_LE(plan.counts.prefill_cut_tiles, plan.counts.prefill_long_tiles);
    EXPECT_LT(LastEnd(plan, batch.shape, /*cut=*/true),
              0.97 * LastEnd(plan, batch.shape, /*cut=*/false));
  }
}

}  // namespace
}  // namespace isobit
