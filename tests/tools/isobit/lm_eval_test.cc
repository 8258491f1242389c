// The lm-evaluation-harness scores a task on the real model through a server.

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/model_path.h"
#include "tests/tools/isobit/serve_fixture.h"

namespace isobit {
namespace {

class LmEvalTest : public ServeTest {
 protected:
  void SetUp() override { model_ = TestModelPath(); }
};

TEST_F(LmEvalTest, ScoresAreThoseOfTheServerToTheLastBit) {
  const std::string python = ProgramPath(kLmEvalPrograms) + "/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "run tools/setup.sh --lm-eval";
  const Served served = Serve();
  const ProcessResult result =
      RunProcess(folder_, {python, ISOBIT_SOURCE_DIR "/tests/tools/isobit/lm_eval/check_scores.py",
                           served.url, "served"});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ::testing::HasSubstr("accuracy "));
}

}  // namespace
}  // namespace isobit
