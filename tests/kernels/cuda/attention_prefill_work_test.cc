// Lists of the prefill kernel's works: every row meets every key once and in order, and a second
// part is taken after its first one. Needs no GPU.

#include "kernels/cuda/attention_prefill_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace isobit::cuda {
namespace {

struct List {
  std::vector<AttentionTile> tiles = {};  // the longest first
  PlanCounts counts = {};
  int kv_heads = 1, heads_at_once = 1;
  Divisor group{1};
  int window = 0;

  PrefillWork At(int index) const {
    return PrefillWorks(counts, tiles.data(), kv_heads, heads_at_once, group, window).At(index);
  }
  int Length(const AttentionTile& tile) const {
    const KeyRange keys = tile.KeysOfAny(group, window);
    return keys.last - keys.first + 1;
  }
};

// Tiles of 192 packed rows of sequences of `rows` rows each, behind `cached` keys. The first
// `cut_tiles` of them are cut.
List MakeList(const std::vector<std::pair<int, int>>& cached_and_rows, int kv_heads,
              int heads_at_once, int group, int window, int cut_tiles) {
  List list = {.kv_heads = kv_heads,
               .heads_at_once = heads_at_once,
               .group = Divisor(group),
               .window = window};
  for (const auto& [cached, rows] : cached_and_rows) {
    for (int packed = 0; packed < rows * group; packed += 192) {
      list.tiles.push_back({0, 0, cached, packed, std::min(192, rows * group - packed)});
    }
  }
  std::stable_sort(list.tiles.begin(), list.tiles.end(),
                   [&](const auto& a, const auto& b) { return list.Length(a) > list.Length(b); });
  const auto is_long = [&](const auto& tile) { return list.Length(tile) > kSplitKeys; };
  const auto count = static_cast<int>(list.tiles.size());
  const auto longs = static_cast<int>(std::count_if(list.tiles.begin(), list.tiles.end(), is_long));
  EXPECT_LE(cut_tiles, longs);
  list.counts.prefill_tiles = count;
  list.counts.prefill_cut_tiles = cut_tiles;
  list.counts.prefill_long_tiles = cut_tiles > 0 ? longs : count;
  return list;
}

// Goes through the list and checks every work against those before it.
void CheckList(const List& list) {
  struct Seen {
    bool is_done = false;
    int next_key = 0;  // of what has a first part only
    int cut_index = 0;
  };
  std::map<std::pair<int, int>, Seen> seen;  // by place of the tile's first row and key head
  const int parts = list.counts.prefill_cut_tiles * list.kv_heads;
  const int works = list.counts.prefill_tiles * list.kv_heads + parts;
  for (int i = 0; i < works; ++i) {
    SCOPED_TRACE(i);
    const PrefillWork work = list.At(i);
    ASSERT_GT(work.tile.rows, 0);
    ASSERT_GE(work.kv_head, 0);
    ASSERT_LT(work.kv_head, list.kv_heads);
    const KeyRange all = work.tile.KeysOfAny(list.group, list.window);
    const KeyRange own = work.Keys(list.group, list.window);
    Seen& before = seen[{work.tile.position * 1000 + work.tile.packed, work.kv_head}];
    ASSERT_FALSE(before.is_done);
    if (work.part == PrefillPart::kFirst) {
      EXPECT_LT(i, parts);
      EXPECT_EQ(work.cut_index, i);
      EXPECT_EQ(before.next_key, 0);
      EXPECT_EQ(work.cut % kPrefillTileKeys, 0);
      EXPECT_NE(work.cut % kSplitKeys, 0);
      EXPECT_LT(all.first, work.cut);
      EXPECT_LE(work.cut, all.last);
      EXPECT_EQ(own.first, all.first);
      before.next_key = own.last + 1;
      before.cut_index = work.cut_index;
    } else if (work.part == PrefillPart::kSecond) {
      EXPECT_EQ(own.first, before.next_key);
      EXPECT_EQ(work.cut, before.next_key);
      EXPECT_EQ(own.last, all.last);
      EXPECT_EQ(work.cut_index, before.cut_index);
      before.is_done = true;
    } else {
      EXPECT_EQ(before.next_key, 0);
      EXPECT_EQ(own.first, all.first);
      EXPECT_EQ(own.last, all.last);
      before.is_done = true;
    }
  }
  EXPECT_EQ(seen.size(), list.tiles.size() * static_cast<size_t>(list.kv_heads));
  for (const auto& [key, state] : seen) EXPECT_TRUE(state.is_done);
  for (int beyond : {0, 1, 7, 1000}) EXPECT_EQ(list.At(works + beyond).tile.rows, 0);
}

TEST(PrefillWorksTest, WholeWorks) {
  for (int kv_heads : {1, 2, 5, 8}) {
    for (int at_once = 1; at_once <= kv_heads; ++at_once) {
      CheckList(MakeList({{0, 700}}, kv_heads, at_once, 4, 0, 0));
      CheckList(MakeList({{3000, 90}, {0, 500}, {17, 200}}, kv_heads, at_once, 1, 300, 0));
    }
  }
}

TEST(PrefillWorksTest, NoWork) { CheckList(MakeList({}, 8, 2, 4, 0, 0)); }

TEST(PrefillWorksTest, CutWorks) {
  for (int kv_heads : {1, 2, 5, 8}) {
    for (int at_once = 1; at_once <= kv_heads; ++at_once) {
      CheckList(MakeList({{14336, 2048}}, kv_heads, at_once, 4, 0, 17));
      CheckList(MakeList({{14336, 2048}}, kv_heads, at_once, 4, 0, 43));
      CheckList(MakeList({{1100, 500}, {9000, 300}, {0, 2000}}, kv_heads, at_once, 2, 0, 5));
      CheckList(MakeList({{5000, 500}, {0, 70}}, kv_heads, at_once, 4, 1500, 9));
    }
  }
}

// Of keys of every alignment and length, at every place: inside, on a border of tiles of keys, and
// not on one of splits.
TEST(PrefillWorksTest, Cuts) {
  for (int first : {0, 1, 63, 64, 1000, 1024, 5000}) {
    for (int length : {1025, 1088, 1200, 2048, 2049, 16384}) {
      const KeyRange keys = {first, first + length - 1};
      int before = first;
      for (int index = 0; index < 136; ++index) {
        const int cut = PrefillCut(keys, index, 136);
        ASSERT_EQ(cut % kPrefillTileKeys, 0);
        ASSERT_NE(cut % kSplitKeys, 0);
        ASSERT_GT(cut, keys.first);
        ASSERT_LE(cut, keys.last);
        ASSERT_GE(cut, before);
        before = cut;
      }
      // All lengths come about.
      EXPECT_LE(PrefillCut(keys, 0, 136) - first, length / 16 + kPrefillTileKeys);
      EXPECT_LE(keys.last + 1 - before, length / 16 + kPrefillTileKeys);
    }
  }
}

}  // namespace
}  // namespace isobit::cuda
