// The digests of fixed requests on the real model, with every instruction set of this machine that
// has vectors.

#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/instructions.h"
#include "kernels/numerics/contract_version.h"
#include "tests/invariance/golden_digests.h"
#include "tests/invariance/tiny_engine.h"
#include "tests/model_path.h"

namespace isobit {
namespace {

TEST(GoldenModel, SmolLm2) {
  std::ifstream file(GoldenDigestsFolder() + "smollm2.json");
  const nlohmann::json golden = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(golden.is_object()) << "golden/digests/smollm2.json";
  EXPECT_EQ(golden["contract"], kContractVersion);
  int runs = 0;
  for (const InstructionSet& set : AvailableInstructionSets()) {
    if (set.name == "scalar") continue;  // minutes; the tiny models run on it
    SCOPED_TRACE(set.name);
    const auto got =
        ComputeModelGolden(TestModelPath(), MakeBackend(absl::StrCat("cpu ", set.name)));
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
