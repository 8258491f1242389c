// The orders of the CUDA backend's sums, and of cuBLASLt's algorithms.

#include <gtest/gtest.h>

#include <string>

#include "invariance/order/cublaslt_sum.h"
#include "invariance/order/order_check.h"
#include "kernels/backends.h"

namespace isobit {
namespace {

class DeviceOrderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto backend = CreateCudaBackend({});
    if (!backend.ok()) GTEST_SKIP() << backend.status();
    backend_ = *std::move(backend);
  }
  std::unique_ptr<Backend> backend_;
};

TEST_F(DeviceOrderTest, EverySumIsTheContracts) {
  const ModelShape shape = {.width = 1024,
                            .ffn_width = 2048,
                            .vocab = 4096,
                            .heads = 8,
                            .kv_heads = 2,
                            .head_dim = 128,
                            .page_tokens = 32};
  const auto orders = RevealOrders(*backend_, shape, {.rows = {1, 8, 17, 64, 200}, .keys = 2100});
  ASSERT_TRUE(orders.ok()) << orders.status();
  ASSERT_FALSE(orders->empty());
  for (const RevealedOrder& order : *orders) EXPECT_EQ(order.deviation, "") << order.name;
}

// An algorithm that says that it splits K does. Of the others the order is recorded.
TEST_F(DeviceOrderTest, CublasLtAlgorithmsThatSplitKShowIt) {
  if (cuda::CublasLtVersion().empty()) GTEST_SKIP() << "needs cuBLASLt";
  int64_t split = 0, whole = 0;
  for (int64_t rows : {16, 1024}) {
    constexpr int64_t kN = 1024, kK = 4096;
    std::string error;
    const auto gemm = cuda::CublasLtGemm::Create(rows, kN, kK, &error);
    ASSERT_NE(gemm, nullptr) << error;
    for (const cuda::CublasLtAlgorithm& algorithm : gemm->Heuristic(8)) {
      auto sum = MakeCublasLtSum(*gemm, algorithm, rows, kN, kK);
      ASSERT_TRUE(sum.ok()) << sum.status();
      const auto order = RevealAndCompare("cuBLASLt", **sum, ChainTree(kK, 16));
      ASSERT_TRUE(order.ok()) << order.status();
      SCOPED_TRACE(order->order);
      if (algorithm.SplitsK()) {
        ++split;
        EXPECT_FALSE(order->ok());
      } else {
        ++whole;
        RecordProperty("order", order->ok() ? "the chain" : order->deviation);
      }
    }
  }
  EXPECT_GT(split, 0);
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace isobit
