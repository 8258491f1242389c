// The orders in which every backend of this machine adds are those that golden/orders keeps, whole
// trees, step by step. Another order is a new version of the contract: golden/CHANGES.md.

#include <gtest/gtest.h>

#include "kernels/numerics/contract_version.h"
#include "tests/invariance/golden_digests.h"
#include "tests/invariance/golden_orders.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

class GoldenOrders : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOrders, AreRevealed) {
  const nlohmann::json golden = ReadGolden(GoldenOrdersPath());
  ASSERT_TRUE(golden.is_object());
  EXPECT_EQ(golden["contract"], kContractVersion);
  const auto revealed = RevealGoldenOrders(*MakeBackend(GetParam()));
  ASSERT_TRUE(revealed.ok()) << revealed.status();
  ASSERT_EQ((*revealed)["orders"].size(), golden["orders"].size());
  EXPECT_EQ(golden["orders"].size(), 8u);
  for (size_t i = 0; i < golden["orders"].size(); ++i) {
    EXPECT_EQ((*revealed)["orders"][i], golden["orders"][i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenOrders, testing::ValuesIn(BackendNames()),
                         BackendTestName);

}  // namespace
}  // namespace isobit
