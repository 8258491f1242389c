// The command on the real model: the same bits from every process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/model_path.h"
#include "tests/tools/isobit/command_fixture.h"

namespace isobit {
namespace {

using nlohmann::json;

class RealModelCommand : public CommandTest {
 protected:
  RealModelCommand() { model_ = TestModelPath(); }
};

// Case 15: twenty process restarts, with what may differ between them.
TEST_F(RealModelCommand, TwentyRestartsGiveOneDigest) {
  const std::string request =
      R"({"id":"a","prompt":"The capital of France is","max_tokens":4,"temperature":1,"seed":7,)"
      R"("logprobs":2})";
  std::set<std::string> answers;
  for (int i = 0; i < 20; ++i) {
    const std::vector<json> answer = Batch(request, {"--threads", std::to_string(1 + i % 3)});
    ASSERT_EQ(answer.size(), 1u);
    answers.insert(answer[0].dump());
  }
  EXPECT_EQ(answers.size(), 1u);
}

// Few tokens: the reference takes half a second for each.
TEST_F(RealModelCommand, AReceiptOfOneDeviceReplaysOnAnother) {
  const std::string receipt = folder_.Path("receipt.json");
  const ProcessResult run =
      Run("run", {"-p", "Hello", "-n", "2", "--temp", "0", "--receipt", receipt});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ProcessResult replay =
      Run("replay", {receipt, "--device", "reference", "--max-model-len", "64"});
  EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
  EXPECT_THAT(replay.out, ::testing::HasSubstr("equal    2 tokens"));
}

// Receipts that an H200 wrote, replayed on the CPU.
TEST_F(RealModelCommand, ReceiptsOfAGpuReplayOnTheCpu) {
  const std::string folder = ISOBIT_SOURCE_DIR "/golden/receipts/";
  Arguments arguments;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("h200_")) arguments.push_back(folder + name);
  }
  ASSERT_GE(arguments.size(), 6u);
  for (const char* option : {"--device", "cpu"}) arguments.push_back(option);
  const ProcessResult replay = Run("replay", arguments);
  EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
  size_t equal = 0, at = 0;
  while ((at = replay.out.find(": equal ", at)) != std::string::npos) ++equal, ++at;
  EXPECT_EQ(equal, arguments.size() - 2) << replay.out;
}

}  // namespace
}  // namespace isobit
