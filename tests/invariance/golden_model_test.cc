// The digests of fixed requests on the real model, with every instruction set of this machine that
// has vectors, and on its GPU.

#include <gtest/gtest.h>

#include "kernels/numerics/contract_version.h"
#include "tests/invariance/golden_digests.h"
#include "tests/invariance/tiny_engine.h"
#include "tests/model_path.h"

namespace isobit {
namespace {

TEST(GoldenModel, SmolLm2) {
  const nlohmann::json golden = ReadGolden(GoldenDigestsFolder() + "smollm2.json");
  ASSERT_TRUE(golden.is_object()) << "golden/digests/smollm2.json";
  EXPECT_EQ(golden["contract"], kContractVersion);
  int runs = 0;
  for (const std::string& backend : BackendNames()) {
    // Minutes; the tiny models run on them.
    if (backend == "cpu scalar" || backend == "reference") continue;
    SCOPED_TRACE(backend);
    const auto got = ComputeModelGolden(TestModelPath(), MakeBackend(backend));
    ASSERT_TRUE(got.ok()) << got.status();
    const nlohmann::json& expected = golden["models"][0]["requests"];
    EXPECT_EQ((*got)["models"][0]["model_digest"], golden["models"][0]["model_digest"]);
    ASSERT_EQ((*got)["models"][0]["requests"].size(), expected.size());
    for (size_t r = 0; r < expected.size(); ++r) {
      EXPECT_EQ((*got)["models"][0]["requests"][r], expected[r]);
    }
    ++runs;
  }
  EXPECT_GE(runs, 1);
}

}  // namespace
}  // namespace isobit
