// isobit batch on a tiny model: order, errors, resuming, broken outputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tiny_model.h"
#include "tests/tools/isobit/command_fixture.h"

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BatchCommand : public CommandTest {
 protected:
  BatchCommand() {
    model_ = folder_.Path("tiny.gguf");
    std::filesystem::rename(WriteTinyModel(), model_);
  }

  // `count` requests of different lengths that all run to their end.
  static std::string Requests(int count, int max_tokens) {
    std::string requests;
    for (int i = 0; i < count; ++i) {
      const json request = {{"id", absl::StrCat("r", i)},
                            {"prompt", absl::StrCat("Item ", i, ": the ")},
                            {"max_tokens", 1 + (i * 7 + 3) % max_tokens},
                            {"temperature", i % 2},
                            {"seed", i},
                            {"ignore_eos", true},
                            {"logprobs", i % 3}};
      requests += request.dump() + "\n";
    }
    return requests;
  }
};

TEST_F(BatchCommand, AnswersInOrderWhateverRunsTogether) {
  const std::string requests = Requests(60, 40);
  const std::vector<json> alone = Batch(requests, {"--max-num-seqs", "1"});
  ASSERT_EQ(alone.size(), 60u);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].at("id"), absl::StrCat("r", i));
    EXPECT_EQ(alone[i].at("choices").at(0).at("token_ids").size(), 1 + (i * 7 + 3) % 40);
  }
  EXPECT_EQ(Batch(requests, {"--max-num-seqs", "16"}), alone);
  EXPECT_EQ(Batch(requests, {"--max-num-seqs", "3", "--max-num-batched-tokens", "5"}), alone);
}

TEST_F(BatchCommand, ABadLineIsAnErrorAndTheRestGoesOn) {
  const std::string good = R"({"id":"g","prompt":"Hello","max_tokens":4,"temperature":0})";
  const std::string requests = good + "\n" +
                               "{\"id\": \"broken\", \"prompt\": \"x\"\n"
                               "[1,2]\n"
                               "\n"
                               "{\"id\":\"utf8\",\"prompt\":\"\xff\xfe\"}\n"
                               "{\"id\":\"deep\",\"prompt\":" +
                               std::string(100000, '[') +
                               "}\n"
                               R"({"id":"t","prompt":"x","temperature":-1})"
                               "\n"
                               R"({"id":"v","prompt_token_ids":[100000]})"
                               "\n"
                               R"({"id":"l","prompt":")" +
                               std::string(5000, 'x') + "\"}\n" + good;
  const std::vector<json> answers = Batch(requests, {}, /*expected_exit=*/1);
  ASSERT_EQ(answers.size(), 9u);
  EXPECT_EQ(answers.front(), answers.back());
  EXPECT_EQ(answers.front().at("choices").at(0).at("token_ids").size(), 4u);
  const auto message = [&answers](size_t i) {
    EXPECT_EQ(answers[i].size(), 2u) << "an error and nothing else";
    return answers[i].at("error").at("message").get<std::string>();
  };
  EXPECT_THAT(message(1), HasSubstr("line 2: not valid JSON"));
  EXPECT_TRUE(answers[1].at("id").is_null());
  EXPECT_THAT(message(2), HasSubstr("line 3: a request must be a JSON object"));
  EXPECT_THAT(message(3), AllOf(HasSubstr("line 5: "), HasSubstr("UTF-8")));
  EXPECT_THAT(message(4), HasSubstr("line 6: JSON is nested deeper"));
  EXPECT_EQ(message(5), "temperature must be >= 0, got -1");
  EXPECT_EQ(answers[5].at("id"), "t");
  EXPECT_EQ(answers[5].at("error").at("code"), "invalid_request");
  EXPECT_THAT(message(6), HasSubstr("prompt_token_ids[0] must be in"));
  EXPECT_THAT(message(7), HasSubstr("prompt has 5000 tokens"));
  EXPECT_EQ(answers[7].at("error").at("code"), "context_length_exceeded");
}

TEST_F(BatchCommand, NothingToAnswer) {
  EXPECT_TRUE(Batch("").empty());
  EXPECT_TRUE(Batch("\n\n").empty());
}

TEST_F(BatchCommand, ALineThatIsTooLong) {
  const std::string long_line = R"({"id":"x","prompt":")" + std::string(17 << 20, 'x') + "\"}\n";
  const std::string good = R"({"id":"g","prompt":"a","max_tokens":1})";
  const std::vector<json> answers = Batch(long_line + good, {}, 1);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(answers[0].at("error").at("message").get<std::string>(),
              HasSubstr("line 1: a request must be at most 16777216 bytes"));
  EXPECT_TRUE(answers[1].contains("choices"));
}

// A program that waits for an answer before it asks again.
TEST_F(BatchCommand, AnswersBeforeTheInputEnds) {
  Process batch(folder_, CommandLine("batch", {"-", "-o", "-"}), "|");
  batch.Send("{\"id\":\"a\",\"prompt\":\"x\",\"max_tokens\":2}\n");
  ASSERT_TRUE(batch.WaitForOutput(
      [](const std::string& out) { return std::count(out.begin(), out.end(), '\n') == 1; }));
  batch.Send("{\"id\":\"b\",\"prompt\":\"x\",\"max_tokens\":2}\n{\"id\":\"c\",\"prompt\"");
  ASSERT_TRUE(batch.WaitForOutput(
      [](const std::string& out) { return std::count(out.begin(), out.end(), '\n') == 2; }));
  EXPECT_TRUE(batch.Running());
  batch.Send(":\"x\",\"max_tokens\":2}");
  batch.CloseInput();
  const ProcessResult result = batch.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(ParseLines(result.out).size(), 3u);
}

// ---- Outputs that can't be written

TEST_F(BatchCommand, AFullDiskIsAnError) {
  const std::string input = folder_.Write("in.jsonl", Requests(4, 8));
  const ProcessResult result = Run("batch", {input, "-o", "/dev/full"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("cannot write /dev/full: No space left on device"));
}

TEST_F(BatchCommand, AClosedPipeIsAnErrorAndNoSignal) {
  const std::string input = folder_.Write("in.jsonl", Requests(200, 100));
  const ProcessResult result =
      RunProcess(folder_, {"/bin/bash", "-c",
                           "\"$0\" batch -m \"$1\" \"$2\" -o - | head -n 1; exit ${PIPESTATUS[0]}",
                           IsobitPath(), model_, input});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cannot write standard output: Broken pipe"));
  EXPECT_EQ(ParseLines(result.out).size(), 1u);
}

TEST_F(BatchCommand, TheOutputIsKeptUntilTheModelIsThere) {
  const std::string input = folder_.Write("in.jsonl", Requests(2, 4));
  const std::string output = folder_.Write("out.jsonl", "precious\n");
  model_ = folder_.Write("bad.gguf", "not a model");
  EXPECT_EQ(Run("batch", {input, "-o", output}).exit_code, 3);
  EXPECT_EQ(TempFolder::Read(output), "precious\n");
}

TEST_F(BatchCommand, TheInputIsNoOutput) {
  const std::string input = folder_.Write("in.jsonl", Requests(2, 4));
  const ProcessResult result = Run("batch", {input, "-o", input});
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(TempFolder::Read(input), Requests(2, 4));
}

// ---- Resuming

TEST_F(BatchCommand, KilledAndResumedGivesTheSameAnswers) {
  const std::string requests = Requests(80, 300);
  const std::string input = folder_.Write("in.jsonl", requests);
  const std::string output = folder_.Path("out.jsonl");
  const std::vector<json> whole = Batch(requests);
  {
    Process batch(folder_, CommandLine("batch", {input, "-o", "-", "--max-num-seqs", "2"}), "",
                  output);
    ASSERT_TRUE(batch.WaitForOutput(
        [](const std::string& out) { return std::count(out.begin(), out.end(), '\n') >= 5; }));
    ASSERT_TRUE(batch.Running());
    batch.Signal(SIGKILL);
    EXPECT_EQ(batch.Wait().signal, SIGKILL);
  }
  const std::string before = TempFolder::Read(output);
  ASSERT_LT(std::count(before.begin(), before.end(), '\n'), 80);
  // As if the last line had been written in half.
  folder_.Write("out.jsonl", before + whole.back().dump().substr(0, 40));
  const ProcessResult resumed = Run("batch", {input, "-o", output, "--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  const std::string after = TempFolder::Read(output);
  EXPECT_TRUE(after.starts_with(before)) << "what was there is kept as it is";
  EXPECT_EQ(ParseLines(after), whole);
  // And once more, with nothing left to do.
  EXPECT_EQ(Run("batch", {input, "-o", output, "--resume"}).exit_code, 0);
  EXPECT_EQ(TempFolder::Read(output), after);
}

TEST_F(BatchCommand, CtrlCLeavesWholeLinesToResumeFrom) {
  const std::string requests = Requests(80, 300);
  const std::string input = folder_.Write("in.jsonl", requests);
  const std::string output = folder_.Path("out.jsonl");
  Process batch(folder_, CommandLine("batch", {input, "-o", "-", "--max-num-seqs", "2"}), "",
                output);
  ASSERT_TRUE(batch.WaitForOutput(
      [](const std::string& out) { return std::count(out.begin(), out.end(), '\n') >= 5; }));
  batch.Signal(SIGINT);
  const ProcessResult result = batch.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--resume"));
  const std::vector<json> some = ParseLines(result.out);
  ASSERT_LT(some.size(), 80u);
  EXPECT_EQ(Run("batch", {input, "-o", output, "--resume"}).exit_code, 0);
  EXPECT_EQ(ParseLines(TempFolder::Read(output)), Batch(requests));
}

TEST_F(BatchCommand, ResumingCountsEarlierFailures) {
  const std::string requests = R"({"id":"a","prompt":"x","top_p":2})"
                               "\n" +
                               Requests(1, 4);
  const std::string input = folder_.Write("in.jsonl", requests);
  const std::string output = folder_.Path("out.jsonl");
  EXPECT_EQ(Run("batch", {input, "-o", output}).exit_code, 1);
  const std::string first = TempFolder::Read(output);
  folder_.Write("out.jsonl", first.substr(0, first.find('\n') + 1));
  EXPECT_EQ(Run("batch", {input, "-o", output, "--resume"}).exit_code, 1);
  EXPECT_EQ(ParseLines(TempFolder::Read(output)), ParseLines(first));
}

TEST_F(BatchCommand, ResumingRefusesOtherRequests) {
  const std::string output = folder_.Path("out.jsonl");
  const std::string input = folder_.Write("in.jsonl", Requests(3, 4));
  ASSERT_EQ(Run("batch", {input, "-o", output}).exit_code, 0);
  const std::string before = TempFolder::Read(output);
  const std::string other = folder_.Write("other.jsonl", R"({"id":"other","prompt":"x"})"
                                                         "\n" +
                                                             Requests(3, 4));
  const ProcessResult result = Run("batch", {other, "-o", output, "--resume"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("can't resume: line 1 of " + output));
  EXPECT_EQ(TempFolder::Read(output), before);
}

// ---- Receipts

TEST_F(BatchCommand, AReceiptForEveryRequest) {
  const std::string requests = Requests(6, 10) +
                               R"({"id":"../odd/ name","prompt":"x","max_tokens":3,"n":2})"
                               "\n"
                               R"({"id":"bad","prompt":"x","n":0})"
                               "\n";
  const std::string receipts = folder_.Path("receipts/of/batch");
  const std::vector<json> with = Batch(requests, {"--receipts", receipts, "--seed", "3"}, 1);
  EXPECT_EQ(with, Batch(requests, {"--seed", "3"}, 1)) << "receipts change no answer";
  Arguments paths;
  for (const auto& entry : std::filesystem::directory_iterator(receipts)) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  ASSERT_EQ(paths.size(), 7u);
  EXPECT_TRUE(paths.front().ends_with("/000001-r0.json")) << paths.front();
  EXPECT_TRUE(paths.back().ends_with("/000007-.._odd__name.json")) << paths.back();
  const ProcessResult replay = Run("replay", paths);
  EXPECT_EQ(replay.exit_code, 0) << replay.out << replay.err;
}

TEST_F(BatchCommand, AReceiptThatCanNotBeWritten) {
  const std::string file = folder_.Write("file", "");
  EXPECT_EQ(Run("batch", {"-", "--receipts", file + "/x"}, Requests(1, 2)).exit_code, 3);
}

}  // namespace
}  // namespace isobit
