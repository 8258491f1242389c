#include "kernels/cpu/embed.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/weight_arena.h"
#include "tests/kernels/cpu/inputs.h"

namespace isobit {
namespace {

using EmbedTest = CpuVariantTest;

TEST_P(EmbedTest, GathersRows) {
  Random random(1);
  WeightArena arena;
  for (int64_t vocab : {1, 31, 32, 33, 300}) {
    for (int64_t width : {1, 15, 16, 17, 576}) {
      const std::vector<Bf16> table = RandomBf16s(random, vocab * width, Values::kAdversarial);
      const MatrixSource source = {vocab, width, [&](int64_t begin, int64_t end, Bf16* out) {
                                     std::copy(table.begin() + begin * width,
                                               table.begin() + end * width, out);
                                   }};
      auto weight =
          PackedWeight::Load({&source, 1}, WeightLayout::kConcatenated, context_.pool, arena);
      ASSERT_TRUE(weight.ok()) << weight.status();
      for (int64_t rows : {0, 1, 2, 100}) {
        std::vector<int32_t> tokens(rows);
        for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(vocab));
        if (rows > 0) tokens.back() = static_cast<int32_t>(vocab - 1);
        std::vector<Bf16> got(rows * width), want;
        for (int32_t token : tokens) {
          want.insert(want.end(), table.begin() + token * width,
                      table.begin() + (token + 1) * width);
        }
        Embed op;
        op.rows = rows;
        op.table = weight->get();
        op.token_ids = tokens.data();
        op.out = got.data();
        RunEmbed(context_, op);
        EXPECT_TRUE(SameBits(got, want, width)) << vocab << " x " << width << ", " << rows;
        op.scale = 55.5f;
        RunEmbed(context_, op);
        for (Bf16& x : want) x = RoundToBf16(ToFloat(x) * 55.5f);
        EXPECT_TRUE(SameBits(got, want, width)) << "scaled";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, EmbedTest, testing::ValuesIn(CpuVariants()), VariantName);

}  // namespace
}  // namespace isobit
