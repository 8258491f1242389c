// Bytes and flops of operations, against numbers worked out by hand.

#include "kernels/operation_cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/backends.h"

namespace isobit {
namespace {

std::unique_ptr<Weight> MakeWeight(Backend& backend, int64_t rows, int64_t cols,
                                   WeightLayout layout = WeightLayout::kConcatenated) {
  const bool two = layout == WeightLayout::kGateUp;
  const MatrixSource part = {.rows = two ? rows / 2 : rows,
                             .cols = cols,
                             .read = [cols](int64_t begin, int64_t end, Bf16* out) {
                               std::fill(out, out + (end - begin) * cols, RoundToBf16(1));
                             }};
  const std::vector<MatrixSource> parts(two ? 2 : 1, part);
  return *backend.LoadWeight(parts, layout);
}

class OperationCostTest : public testing::Test {
 protected:
  static void Expect(const OperationCost& cost, const std::string& name, double bytes,
                     double flops) {
    EXPECT_EQ(cost.name, name);
    EXPECT_EQ(cost.bytes, bytes) << name;
    EXPECT_EQ(cost.flops, flops) << name;
  }
  std::unique_ptr<Backend> backend_ = CreateReferenceBackend();
};

TEST_F(OperationCostTest, Gemm) {
  const auto weight = MakeWeight(*backend_, 32, 16);
  const auto gate_up = MakeWeight(*backend_, 32, 16, WeightLayout::kGateUp);
  const float bias = 0;
  const Bf16 residual = {};
  constexpr double kIn = 2 * (32 * 16 + 3 * 16), kFlops = 2 * 3 * 32 * 16;
  Gemm op = {.rows = 3, .weight = weight.get()};
  Expect(CostOf(op), "GEMM 32 x 16", kIn + 2 * 3 * 32, kFlops);
  op.residual = &residual;
  Expect(CostOf(op), "GEMM 32 x 16", kIn + 2 * 2 * 3 * 32, kFlops);
  op = {.rows = 3, .weight = weight.get(), .epilogue = Gemm::Epilogue::kFp32, .bias = &bias};
  Expect(CostOf(op), "GEMM 32 x 16, fp32", kIn + 4 * 3 * 32 + 4 * 32, kFlops);
  op = {.rows = 3, .weight = gate_up.get(), .epilogue = Gemm::Epilogue::kSiluGate};
  Expect(CostOf(op), "GEMM 32 x 16, SiLU gate", kIn + 2 * 3 * 16, kFlops);
}

TEST_F(OperationCostTest, Attention) {
  // Two sequences of two rows each, at positions 9 and 10: 10 + 11 visible keys each.
  const RowBatch batch = {.rows = 4, .sequences = 2};
  Attention op = {.batch = &batch, .heads = 4, .kv_heads = 2, .head_dim = 8};
  constexpr double kQueriesAndResults = 2 * 2 * 4 * 4 * 8;
  Expect(CostOf(op, 9), "attention", kQueriesAndResults + 2 * 2 * 2 * 11 * 2 * 8,
         4 * (10 + 11) * 2 * 4 * 8);
  op.window = 4;  // keys 6 to 9 and 7 to 10
  Expect(CostOf(op, 9), "attention", kQueriesAndResults + 2 * 2 * 2 * 5 * 2 * 8,
         4 * (4 + 4) * 2 * 4 * 8);
  op.window = 100;  // wider than what there is
  Expect(CostOf(op, 9), "attention", kQueriesAndResults + 2 * 2 * 2 * 11 * 2 * 8,
         4 * (10 + 11) * 2 * 4 * 8);
}

// As the product, and the angles.
TEST_F(OperationCostTest, QkvProjection) {
  const auto weight = MakeWeight(*backend_, 64, 16);
  const RowBatch batch = {.rows = 5, .sequences = 1};
  const QkvProjection op = {
      {.rows = 5, .weight = weight.get()},
      {.batch = &batch, .heads = 4, .kv_heads = 2, .head_dim = 8, .rotary_dim = 8}};
  Expect(CostOf(op), "GEMM 64 x 16, rotation, KV write",
         2 * (64 * 16 + 5 * 16 + 5 * 64) + 4 * 5 * 8, 2 * 5 * 64 * 16);
}

TEST_F(OperationCostTest, WhatIsBoundByMemoryAlone) {
  const auto table = MakeWeight(*backend_, 100, 16);
  const RowBatch batch = {.rows = 5, .sequences = 1};
  Expect(CostOf(Embed{.rows = 5, .table = table.get()}), "embedding", 4 * 5 + 2 * 2 * 5 * 16, 0);
  Expect(CostOf(RmsNorm{.rows = 5, .width = 16}), "RMSNorm", 2 * (2 * 5 * 16 + 16), 0);
  Expect(CostOf(RopeKvWrite{
             .batch = &batch, .heads = 4, .kv_heads = 2, .head_dim = 8, .rotary_dim = 8}),
         "rotation, KV write", 2 * 2 * 5 * 8 * 8 + 4 * 5 * 8, 0);
  Expect(CostOf(ScoreTokens{.rows = 5, .vocab = 100}), "scoring", 4 * 5 * 100, 0);
  Expect(CostOf(SampleTokens{.rows = 5, .vocab = 100}), "sampling", 4 * 5 * 100, 0);
}

}  // namespace
}  // namespace isobit
