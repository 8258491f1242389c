// The commands on a Hugging Face folder: the same answers, digests and bits as on the GGUF file of
// the same model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/runtime/model/whole_model.h"
#include "tests/tools/isobit/command_fixture.h"

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Parameterised by the name of a model.
class FolderCommand : public CommandTest, public testing::WithParamInterface<const char*> {
 protected:
  FolderCommand() {
    model_ = folder_.Path("model");
    std::filesystem::create_directory(model_);
    file_ = folder_.Path("model.gguf");
    std::filesystem::rename(WriteWholeModel(GetParam(), model_), file_);
  }

  // What `run` prints without its speed: from "digest" to the end of the digest.
  static std::string DigestIn(const std::string& text) {
    const size_t at = text.find("digest ");
    return at == text.npos ? "no digest" : text.substr(at, 7 + 32);
  }

  std::string file_;
};

TEST_P(FolderCommand, RunAndBatchGiveTheBitsOfTheGgufFile) {
  const Arguments run = {"-p", "One 2 three", "-n", "24", "--temp", "0.8", "--seed", "3"};
  const ProcessResult of_folder = Run("run", run), of_file = RunOn(file_, "run", run);
  ASSERT_EQ(of_folder.exit_code, 0) << of_folder.err;
  ASSERT_EQ(of_file.exit_code, 0) << of_file.err;
  EXPECT_EQ(of_folder.out, of_file.out);
  EXPECT_THAT(DigestIn(of_folder.err), HasSubstr("digest "));
  EXPECT_EQ(DigestIn(of_folder.err), DigestIn(of_file.err));

  const std::string requests =
      R"({"id":"a","prompt":"x = 1","max_tokens":9,"temperature":0,"logprobs":2})"
      "\n"
      R"({"id":"b","messages":[{"role":"user","content":"hi"}],"seed":1,"prompt_logprobs":1})"
      "\n";
  const std::vector<json> answers = Batch(requests);
  const ProcessResult answers_of_file = RunOn(file_, "batch", {"-", "-o", "-"}, requests);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers, ParseLines(answers_of_file.out));
  EXPECT_FALSE(answers[0].contains("error")) << answers[0];
}

TEST_P(FolderCommand, AReceiptOfOneIsReplayedOnTheOther) {
  const std::string receipt = folder_.Path("receipt.json");
  ASSERT_EQ(Run("run", {"-p", "One", "-n", "8", "--seed", "3", "--receipt", receipt}).exit_code, 0);
  const ProcessResult replay = RunOn(file_, "replay", {receipt});
  EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("equal"));
}

TEST_P(FolderCommand, InspectDescribesTheFolder) {
  const auto read = [](const ProcessResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json folder = read(Run("inspect", {"--json"})),
             file = read(RunOn(file_, "inspect", {"--json"}));
  EXPECT_EQ(folder["model_digest"], file["model_digest"]);
  EXPECT_EQ(folder["tokenizer"], file["tokenizer"]);
  for (const char* key :
       {"family", "layers", "width", "heads", "head_dim", "vocab", "deviations"}) {
    EXPECT_EQ(folder["model"][key], file["model"][key]) << key;
  }
  EXPECT_EQ(folder["model"]["name"], "model") << "the folder's";
  EXPECT_EQ(folder["model"]["recommended"], json({{"temperature", 0.6}}));
  EXPECT_THAT(folder["model"]["loaded"].get<std::string>(),
              AllOf(HasSubstr("safetensors"), HasSubstr("used as stored")));
  EXPECT_THAT(Run("inspect", {}).out, HasSubstr(folder["model_digest"].get<std::string>()));
}

TEST_P(FolderCommand, TokenizeReadsTheFoldersTokenizer) {
  const std::string lines =
      "{\"text\": \"a 12<|im_end|>\"}\n"
      R"({"messages": [{"role": "user", "content": "x"}]})"
      "\n";
  const ProcessResult of_folder = Run("tokenize", {"-"}, lines);
  EXPECT_EQ(of_folder.exit_code, 0) << of_folder.err;
  EXPECT_EQ(of_folder.out, RunOn(file_, "tokenize", {"-"}, lines).out);
  const std::vector<json> answers = ParseLines(of_folder.out);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].at("ids"), json({97, 32, 49, 50, kWholeModelEnd})) << "the bytes";
  EXPECT_EQ(answers[1].at("text"), "user: x<|im_end|>assistant: ");
}

// Neither weights nor configuration are needed for that.
TEST_P(FolderCommand, TokenizeNeedsNoWeights) {
  const std::string line = "{\"text\": \"a 12<|im_end|>\"}\n";
  const std::string expected = Run("tokenize", {"-"}, line).out;
  std::filesystem::remove(model_ + "/model.safetensors");
  EXPECT_EQ(Run("tokenize", {"-"}, line).out, expected);
  std::filesystem::remove(model_ + "/config.json");
  EXPECT_EQ(Run("tokenize", {"-"}, line).out, expected);
  model_ = folder_.Path("vocabulary.gguf");
  WriteVocabulary(model_);
  EXPECT_EQ(Run("tokenize", {"-"}, line).out, expected);
  EXPECT_EQ(Run("inspect", {}).exit_code, 3);
}

TEST_P(FolderCommand, CheckHolds) {
  const ProcessResult result = Run("check", {});
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("values equal"), HasSubstr("rows, 0 failed"),
                                Not(HasSubstr("FAIL"))));
}

INSTANTIATE_TEST_SUITE_P(Models, FolderCommand, testing::Values("qwen2", "gemma3"),
                         [](const auto& instance) { return std::string(instance.param); });

// A long context that needs another rotation is another function, and says so.
class LongFolderCommand : public CommandTest {};

TEST_F(LongFolderCommand, AnotherContextIsAnotherModelDigest) {
  model_ = folder_.Path("model");
  std::filesystem::create_directory(model_);
  WriteWholeModel("phi3_long", model_);
  const auto inspect = [this](const Arguments& options) {
    Arguments arguments = {"--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProcessResult result = Run("inspect", arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json original = inspect({}), longer = inspect({"--max-model-len", "200"});
  EXPECT_EQ(original["model"]["context_length"], 64);
  EXPECT_EQ(original["model"]["long_context_length"], 256);
  EXPECT_EQ(longer["model"]["context_length"], 256);
  EXPECT_EQ(longer["memory"]["max_model_len"], 200);
  EXPECT_NE(original["model_digest"], longer["model_digest"]);
  EXPECT_EQ(inspect({"--max-model-len", "50"})["model_digest"], original["model_digest"]);
  EXPECT_EQ(inspect({"--max-model-len", "256"})["model_digest"], longer["model_digest"]);
  EXPECT_THAT(Run("inspect", {}).out, HasSubstr("--max-model-len up to 256"));
  const ProcessResult too_long = Run("inspect", {"--max-model-len", "257"});
  EXPECT_EQ(too_long.exit_code, 2);
  EXPECT_THAT(too_long.err, HasSubstr("max-model-len must be in [1, 256]"));
  const ProcessResult refused = Run("run", {"-p", std::string(80, 'x')});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("prompt has 80 tokens"));
}

}  // namespace
}  // namespace isobit
