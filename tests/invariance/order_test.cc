// Orders of sums, told apart from outside: plain functions with known orders, and the operations
// of backends that have one fault each.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "invariance/order/operation_sums.h"
#include "invariance/order/order_check.h"
#include "invariance/order/reveal.h"
#include "invariance/random.h"
#include "kernels/backends.h"
#include "kernels/numerics/dot16.h"
#include "kernels/numerics/row_sum.h"
#include "tests/invariance/faulty_backends.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Terms = std::span<const float>;

SummationTree Reveal(int64_t terms, PlainFunction function) {
  PlainSum sum(terms, std::move(function));
  auto tree = RevealOrder(static_cast<CancellingSum&>(sum));
  EXPECT_TRUE(tree.ok()) << tree.status();
  return tree.ok() ? *std::move(tree) : ChainTree(1, 1);
}

SummationTree RevealNonNegative(int64_t terms, PlainFunction function) {
  PlainSum sum(terms, std::move(function));
  auto tree = RevealOrder(static_cast<NonNegativeSum&>(sum));
  EXPECT_TRUE(tree.ok()) << tree.status();
  return tree.ok() ? *std::move(tree) : ChainTree(1, 1);
}

// ---- Sums with known orders

float Sequential(Terms x) {
  float sum = 0;
  for (float term : x) sum += term;
  return sum;
}

float Backward(Terms x) {
  float sum = 0;
  for (size_t i = x.size(); i-- > 0;) sum += x[i];
  return sum;
}

float Pairwise(Terms x) {
  if (x.size() == 1) return x[0];
  const size_t half = x.size() / 2;
  return Pairwise(x.first(half)) + Pairwise(x.subspan(half));
}

float Lanes(Terms x) { return SumFloat(x.data(), static_cast<int64_t>(x.size())); }

// Steps of `step` terms added by a fused step, `c` first.
float FusedChain(float c, Terms x, size_t step) {
  for (size_t i = 0; i < x.size(); i += step) {
    Bf16 a[kDotTerms] = {}, one[kDotTerms];
    std::ranges::fill(one, kOneBf16);
    for (size_t j = i; j < std::min(i + step, x.size()); ++j) a[j - i] = RoundToBf16(x[j]);
    c = Dot16(c, a, one);
  }
  return c;
}

float Chain16(Terms x) { return FusedChain(0, x, 16); }
float Chain8(Terms x) { return FusedChain(0, x, 8); }

float Chain16Backward(Terms x) {
  float c = 0;
  for (size_t i = x.size() / 16; i-- > 0;) c = FusedChain(c, x.subspan(16 * i, 16), 16);
  return c;
}

// Each group summed from zero and then added: not fused.
float Groups16(Terms x) {
  float sum = 0;
  for (size_t i = 0; i < x.size(); i += 16) sum += FusedChain(0, x.subspan(i, 16), 16);
  return sum;
}

float SplitK(Terms x) {
  const size_t part = x.size() / 4;
  float sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += Chain16(x.subspan(i * part, part));
  return sum;
}

// One output whose work was cut where a processor's share ended, not at a round fraction: the
// processor that has the last piece adds those of the others.
float StreamK(Terms x) {
  const size_t cut = 5 * 16, second = 11 * 16;
  const float last = Chain16(x.subspan(second));
  return last + Chain16(x.subspan(cut, second - cut)) + Chain16(x.first(cut));
}

// ---- Revealing them

TEST(RevealOrder, FindsKnownOrders) {
  EXPECT_EQ(FirstDeviation(ChainTree(100, 1), Reveal(100, Sequential)), "");
  EXPECT_EQ(FirstDeviation(ChainTree(500, 16), Reveal(500, Chain16)), "");
  EXPECT_EQ(FirstDeviation(ChainTree(500, 8), Reveal(500, Chain8)), "");
  EXPECT_EQ(FirstDeviation(RowSumTree(1500), Reveal(1500, Lanes)), "");
  for (int64_t terms : {1, 2, 3, 15, 16, 17, 33}) {
    EXPECT_EQ(FirstDeviation(ChainTree(terms, 16), Reveal(terms, Chain16)), "") << terms;
    EXPECT_EQ(FirstDeviation(RowSumTree(terms), Reveal(terms, Lanes)), "") << terms;
  }
}

TEST(RevealOrder, FindsKnownOrdersWithoutNegativeTerms) {
  EXPECT_EQ(FirstDeviation(ChainTree(60, 1), RevealNonNegative(60, Sequential)), "");
  EXPECT_EQ(FirstDeviation(RowSumTree(1500), RevealNonNegative(1500, Lanes)), "");
  const SummationTree pairs = RevealNonNegative(64, Pairwise);
  EXPECT_EQ(FirstDeviation(Reveal(64, Pairwise), pairs), "");
  for (int64_t terms : {1, 2, 3, 9, 130}) {
    EXPECT_EQ(FirstDeviation(RowSumTree(terms), RevealNonNegative(terms, Lanes)), "") << terms;
  }
  // Fused steps, which cut.
  EXPECT_EQ(FirstDeviation(ChainTree(500, 16), RevealNonNegative(500, Chain16)), "");
  EXPECT_EQ(FirstDeviation(ChainTree(500, 8), RevealNonNegative(500, Chain8)), "");
  for (int64_t terms : {1, 2, 3, 15, 16, 17, 33}) {
    EXPECT_EQ(FirstDeviation(ChainTree(terms, 16), RevealNonNegative(terms, Chain16)), "") << terms;
  }
}

TEST(RevealOrder, DescribesThem) {
  EXPECT_EQ(Reveal(512, Chain16).Describe(),
            "chain of 32 steps: 0..15 | 16..31 | 32..47 | ... | 496..511");
  EXPECT_EQ(Reveal(512, SplitK).Describe(),
            "one step adds 2 sums\n"
            "  one step adds 2 sums\n"
            "    one step adds 2 sums\n"
            "      chain of 8 steps: 0..15 | 16..31 | 32..47 | ... | 112..127\n"
            "      the same, 128 terms further\n"
            "    chain of 8 steps: 256..271 | 272..287 | 288..303 | ... | 368..383\n"
            "  chain of 8 steps: 384..399 | 400..415 | 416..431 | ... | 496..511");
  EXPECT_EQ(Reveal(8, Pairwise).Describe(),
            "one step adds 2 sums\n"
            "  one step adds 2 sums\n"
            "    0..1, in one step\n"
            "    the same, 2 terms further\n"
            "  the same, 4 terms further");
  EXPECT_EQ(RevealNonNegative(2048, Lanes).Describe(40).find("lines more"), std::string::npos);
}

// Each against the chain of 16, and each against each other; by both ways of asking.
class TellApart : public testing::TestWithParam<bool> {};

TEST_P(TellApart, AllOrders) {
  constexpr int64_t kTerms = 256;
  const std::vector<std::pair<std::string, PlainFunction>> sums = {
      {"sequential", Sequential}, {"backward", Backward},
      {"pairwise", Pairwise},     {"lanes", Lanes},
      {"chain of 16", Chain16},   {"chain of 8", Chain8},
      {"split-K", SplitK},        {"chain backward", Chain16Backward},
      {"stream-K", StreamK},      {"groups", Groups16}};
  const auto reveal = [](PlainFunction function) {
    return GetParam() ? RevealNonNegative(kTerms, std::move(function))
                      : Reveal(kTerms, std::move(function));
  };
  std::vector<SummationTree> trees;
  for (const auto& [name, function] : sums) trees.push_back(reveal(function));
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t j = 0; j < sums.size(); ++j) {
      EXPECT_EQ(FirstDeviation(trees[i], trees[j]).empty(), i == j)
          << sums[i].first << ", " << sums[j].first;
    }
  }
  const SummationTree contract = ChainTree(kTerms, 16);
  const auto deviation = [&](PlainFunction f) {
    return FirstDeviation(contract, reveal(std::move(f)));
  };
  EXPECT_EQ(deviation(Chain8), "one step adds 0..7; there the contract has a step of 0..15");
  EXPECT_EQ(deviation(Sequential), "one step adds 0..1; there the contract has a step of 0..15");
  EXPECT_EQ(deviation(Chain16Backward),
            "one step adds 240..255; there the contract has a step of (0..239), 240..255");
  EXPECT_EQ(deviation(SplitK),
            "one step adds 64..79; there the contract has a step of (0..63), 64..79");
  EXPECT_EQ(deviation(StreamK),
            "one step adds 80..95; there the contract has a step of (0..79), 80..95");
  EXPECT_EQ(deviation(Groups16),
            "one step adds 16..31; there the contract has a step of (0..15), 16..31");
}

INSTANTIATE_TEST_SUITE_P(RevealOrder, TellApart, testing::Bool(), [](const auto& param) {
  return param.param ? "WithoutNegativeTerms" : "TermsThatCancel";
});

TEST(RevealOrder, RefusesWhatIsNoTree) {
  const auto reveal = [](PlainFunction function) {
    PlainSum sum(40, std::move(function));
    return std::string(RevealOrder(static_cast<CancellingSum&>(sum)).status().message());
  };
  // Adds a term twice; loses terms; sums in an order that depends on the terms.
  EXPECT_THAT(reveal([](Terms x) { return Sequential(x) + x[3]; }), HasSubstr("gave"));
  EXPECT_NE(reveal([](Terms x) { return Sequential(x.first(39)); }), "");
  EXPECT_THAT(reveal([](Terms x) { return x[5] == 1 ? Sequential(x) : Backward(x); }),
              HasSubstr("not one fixed order"));
}

TEST(RevealOrder, AttentionTreeCountsFromTheFirstKey) {
  // A window over the border of a split, ends not at a group's.
  const SummationTree tree = AttentionTree(1000, 1050);
  EXPECT_EQ(tree.terms(), 51);
  EXPECT_EQ(tree.Describe(),
            "one step adds 2 sums\n"
            "  chain of 2 steps: 0..7 | 8..23\n"
            "  chain of 2 steps: 24..39 | 40..50");
}

// ---- Operations of backends

constexpr ModelShape kShape = {.width = 80,
                               .ffn_width = 144,
                               .vocab = 40,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 32,
                               .page_tokens = 32};

class BackendOrderTest : public testing::TestWithParam<std::string> {};

TEST_P(BackendOrderTest, IsTheContracts) {
  const auto backend = MakeBackend(GetParam());
  const auto orders = RevealOrders(*backend, kShape, {.rows = {1, 33}, .keys = 130});
  ASSERT_TRUE(orders.ok()) << orders.status();
  EXPECT_EQ(orders->size(), 2 * 9u);
  for (const RevealedOrder& order : *orders) {
    EXPECT_EQ(order.deviation, "") << order.name;
    EXPECT_GE(order.terms, 80) << order.name;
    EXPECT_NE(order.order, "") << order.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, BackendOrderTest, testing::ValuesIn(BackendNames()),
                         BackendTestName);

TEST(BackendOrder, WindowAndThreeSplits) {
  const auto backend = MakeBackend("cpu");
  for (const AttentionSumShape& shape :
       {AttentionSumShape{.rows = 1, .keys = 1090, .window = 300},
        AttentionSumShape{.rows = 5, .keys = 2070, .heads = 6, .kv_heads = 3, .head_dim = 64}}) {
    auto sum = MakeAttentionSum(*backend, shape);
    ASSERT_TRUE(sum.ok()) << sum.status();
    const auto order = RevealAndCompare("attention", **sum, shape.Contract());
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_EQ(order->deviation, "");
    EXPECT_EQ(order->terms, shape.terms());
    if (shape.terms() > 1000) continue;  // it asks many more questions
    auto row_sum = MakeAttentionRowSum(*backend, shape);
    ASSERT_TRUE(row_sum.ok()) << row_sum.status();
    const auto row_order = RevealAndCompare("row sum", **row_sum, shape.Contract());
    ASSERT_TRUE(row_order.ok()) << row_order.status();
    EXPECT_EQ(row_order->deviation, "");
    EXPECT_EQ(row_order->order, order->order);
  }
}

std::string DeviationOf(std::string_view fault, std::string_view operation) {
  for (const Fault& f : Faults()) {
    if (f.name != fault) continue;
    const auto backend = f.make();
    const auto orders = RevealOrders(*backend, kShape, {.rows = {1, 40}, .keys = 96});
    EXPECT_TRUE(orders.ok()) << orders.status();
    std::string deviations;
    for (const RevealedOrder& order : *orders) {
      if (order.name.find(operation) == std::string::npos) {
        EXPECT_EQ(order.deviation, "") << order.name;
      }
      if (!order.ok()) deviations += order.name + ": " + order.deviation + "\n";
    }
    return deviations;
  }
  return "no such fault";
}

TEST(BackendOrder, FaultsAreNamed) {
  EXPECT_THAT(DeviationOf("a GEMM that splits K when there are few rows", "GEMM"),
              HasSubstr("GEMM 40x80, fp32, 1 row: one step adds 32..47; there the contract has a "
                        "step of (0..31), 32..47"));
  EXPECT_THAT(DeviationOf("a norm that changes at 32 rows", "RMSNorm"),
              HasSubstr("RMSNorm of 80, 40 rows: one step adds (0..7), 8; there the contract has a "
                        "step of"));
  EXPECT_THAT(DeviationOf("attention split by the batch", "attention"),
              AllOf(HasSubstr("attention over 96 keys, 1 row: one step adds"),
                    HasSubstr("row sum of attention over 96 keys, 1 row: one step adds")));
}

}  // namespace
}  // namespace isobit
