// The digests of fixed requests are what they were, with every instruction set of this machine and
// on its GPU. A change is a new version of the contract: golden/CHANGES.md.

#include <gtest/gtest.h>

#include "kernels/numerics/contract_version.h"
#include "tests/invariance/golden_digests.h"
#include "tests/invariance/tiny_engine.h"

namespace isobit {
namespace {

// Field by field, so that a failure says which request of which model differs, and where.
void ExpectEqual(const nlohmann::json& golden, const absl::StatusOr<nlohmann::json>& got) {
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_TRUE(golden.is_object());
  EXPECT_EQ(golden["contract"], kContractVersion);
  ASSERT_EQ(golden["models"].size(), (*got)["models"].size());
  for (size_t m = 0; m < golden["models"].size(); ++m) {
    const nlohmann::json& expected = golden["models"][m];
    const nlohmann::json& model = (*got)["models"][m];
    SCOPED_TRACE(expected["name"]);
    EXPECT_EQ(model["name"], expected["name"]);
    EXPECT_EQ(model["model_digest"], expected["model_digest"]);
    ASSERT_EQ(model["requests"].size(), expected["requests"].size());
    EXPECT_FALSE(expected["requests"].empty());
    for (size_t r = 0; r < expected["requests"].size(); ++r) {
      EXPECT_EQ(model["requests"][r], expected["requests"][r]);
    }
  }
}

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, TinyModels) {
  ExpectEqual(ReadGolden(GoldenDigestsFolder() + "tiny.json"),
              ComputeTinyGoldens([] { return MakeBackend(GetParam()); }));
}

INSTANTIATE_TEST_SUITE_P(Backends, GoldenTest, testing::ValuesIn(BackendNames()), BackendTestName);

}  // namespace
}  // namespace isobit
