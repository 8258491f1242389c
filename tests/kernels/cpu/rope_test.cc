#include "kernels/cpu/rope.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backends.h"
#include "kernels/cpu/kv_cache.h"
#include "kernels/numerics/rope.h"
#include "kernels/reference/backend.h"
#include "tests/kernels/cpu/inputs.h"

namespace isobit {
namespace {

constexpr int kPageTokens = 16;

struct Shape {
  int heads;
  int kv_heads;
  int head_dim;
  int rotary_dim;
  bool norm;
};

// Rows of several sequences, each somewhere in its own pages.
struct Batch {
  std::vector<int32_t> position, sequence, first_row, page_table;
  RowBatch rows;

  // chunks: first position and number of rows of each sequence. Pages are dealt from the back.
  Batch(const std::vector<std::pair<int, int>>& chunks, int pages) {
    const int stride = pages / static_cast<int>(chunks.size());
    for (size_t s = 0; s < chunks.size(); ++s) {
      first_row.push_back(static_cast<int32_t>(position.size()));
      for (int i = 0; i < chunks[s].second; ++i) {
        position.push_back(chunks[s].first + i);
        sequence.push_back(static_cast<int32_t>(s));
      }
      for (int p = 0; p < stride; ++p) {
        page_table.push_back(pages - 1 - static_cast<int32_t>(page_table.size()));
      }
    }
    first_row.push_back(static_cast<int32_t>(position.size()));
    rows.rows = static_cast<int64_t>(position.size());
    rows.sequences = static_cast<int64_t>(chunks.size());
    rows.position = position.data();
    rows.sequence = sequence.data();
    rows.first_row = first_row.data();
    rows.page_table = page_table.data();
    rows.page_table_stride = stride;
    rows.max_context = stride * kPageTokens;
  }
};

class RopeTest : public CpuVariantTest {
 protected:
  void ExpectEqual(const Shape& shape, const Batch& batch, int pages, Values values,
                   uint64_t seed) {
    Random random(seed);
    const int64_t rows = batch.rows.rows, d = shape.head_dim;
    const int64_t positions = batch.rows.max_context;
    const int pairs = shape.rotary_dim / 2;
    std::vector<double> inv_freq(pairs);
    if (pairs > 0) RopeInvFreq(shape.rotary_dim, 10000.0, inv_freq.data());
    std::vector<float> cos(positions * pairs), sin(positions * pairs);
    for (int64_t p = 0; p < positions; ++p) {
      RopeTableRow(p, inv_freq.data(), pairs, cos.data() + p * pairs, sin.data() + p * pairs);
    }
    const std::vector<Bf16> qkv =
        RandomBf16s(random, rows * (shape.heads + 2 * shape.kv_heads) * d, values);
    const std::vector<Bf16> q_norm = RandomBf16s(random, d, Values::kNormal);
    const std::vector<Bf16> k_norm = RandomBf16s(random, d, Values::kNormal);

    const KvCacheShape cache_shape = {/*layers=*/2, shape.kv_heads, shape.head_dim, kPageTokens,
                                      pages};
    auto reference = CreateReferenceBackend();
    auto want_cache = *reference->CreateKvCache(cache_shape);
    auto got_cache = *CpuKvCache::Create(cache_shape);
    std::vector<int32_t> all_pages(pages);
    std::iota(all_pages.begin(), all_pages.end(), 0);
    reference->FillPages(*want_cache, all_pages, kOneBf16);
    got_cache->Fill(all_pages, kOneBf16);

    std::vector<Bf16> want(rows * shape.heads * d), got(rows * shape.heads * d);
    RopeKvWrite op;
    op.batch = &batch.rows;
    op.heads = shape.heads;
    op.kv_heads = shape.kv_heads;
    op.head_dim = shape.head_dim;
    op.qkv = qkv.data();
    op.q_norm = shape.norm ? q_norm.data() : nullptr;
    op.k_norm = shape.norm ? k_norm.data() : nullptr;
    op.norm_eps = 1e-6f;
    op.rotary_dim = shape.rotary_dim;
    op.cos = cos.data();
    op.sin = sin.data();
    op.layer = 1;
    op.q = want.data();
    op.cache = want_cache.get();
    reference->Run(op);
    op.q = got.data();
    op.cache = got_cache.get();
    RunRopeKvWrite(context_, op);
    EXPECT_TRUE(SameBits(got, want, d));
    ExpectEqualCaches(*got_cache, static_cast<reference::ReferenceKvCache&>(*want_cache));
  }

  // All of it: what was written, and that nothing else was.
  static void ExpectEqualCaches(const CpuKvCache& got, const reference::ReferenceKvCache& want) {
    const KvCacheShape& s = want.shape();
    std::vector<Bf16> got_bits, want_bits;
    for (int layer = 0; layer < s.layers; ++layer) {
      for (int32_t page = 0; page < s.pages; ++page) {
        for (int h = 0; h < s.kv_heads; ++h) {
          for (int slot = 0; slot < s.page_tokens; ++slot) {
            for (int i = 0; i < s.head_dim; ++i) {
              got_bits.push_back(got.KeyAt(layer, page, h, slot, i));
              want_bits.push_back(want.Key(layer, page, h, slot)[i]);
              got_bits.push_back(got.Values(layer, page, h)[slot * s.head_dim + i]);
              want_bits.push_back(want.Value(layer, page, h, slot)[i]);
            }
          }
        }
      }
    }
    EXPECT_TRUE(SameBits(got_bits, want_bits, 2 * s.head_dim));
  }
};

TEST_P(RopeTest, ShapesOfModels) {
  const Batch batch({{30, 1}, {0, 20}, {15, 3}}, /*pages=*/9);
  uint64_t seed = 1;
  for (const Shape& shape :
       {Shape{9, 3, 64, 64, false}, Shape{14, 2, 64, 64, false}, Shape{16, 8, 128, 128, true},
        Shape{4, 4, 96, 96, false}, Shape{8, 1, 256, 64, true}, Shape{4, 2, 80, 20, true},
        Shape{2, 1, 64, 0, false}, Shape{2, 1, 48, 2, true}}) {
    SCOPED_TRACE(shape.head_dim);
    ExpectEqual(shape, batch, /*pages=*/9, Values::kNormal, seed++);
  }
}

TEST_P(RopeTest, ExtremeValues) {
  const Batch batch({{3, 2}, {31, 1}}, /*pages=*/4);
  for (bool norm : {false, true}) {
    ExpectEqual({4, 2, 80, 60, norm}, batch, /*pages=*/4, Values::kWide, 10);
    ExpectEqual({4, 2, 80, 60, norm}, batch, /*pages=*/4, Values::kAdversarial, 11);
  }
}

TEST_P(RopeTest, ManyRows) {
  const Batch batch({{0, 65}, {33, 1}, {100, 28}, {7, 64}}, /*pages=*/32);
  ExpectEqual({9, 3, 64, 64, false}, batch, /*pages=*/32, Values::kNormal, 12);
}

INSTANTIATE_TEST_SUITE_P(Cpu, RopeTest, testing::ValuesIn(CpuVariants()), VariantName);

}  // namespace
}  // namespace isobit
