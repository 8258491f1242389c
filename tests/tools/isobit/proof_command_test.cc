// The commands that prove: spot checks, orders, guarantees, schedules, audits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/tiny_model.h"
#include "tests/tools/isobit/command_fixture.h"

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProofCommand : public CommandTest {
 protected:
  ProofCommand() {
    model_ = folder_.Path("tiny.gguf");
    std::filesystem::rename(
        WriteTinyModel({.layers = 1, .width = 32, .ffn_width = 48, .heads = 2, .kv_heads = 1}),
        model_);
  }
};

TEST_F(ProofCommand, SpotChecksOfReceipts) {
  const std::string receipt = folder_.Path("receipt.json");
  const ProcessResult run = Run("run", {"-p", "Hello", "-n", "40", "--ignore-eos", "--receipt",
                                        receipt, "--temp", "0.8", "--seed", "3"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const ProcessResult some = Run("replay", {receipt, "--positions", "5%"});
  EXPECT_EQ(some.exit_code, 0) << some.out << some.err;
  EXPECT_THAT(some.out, StartsWith(receipt + ": equal    2 of 40 tokens drawn again, digest "));
  const ProcessResult all = Run("replay", {receipt, "--positions", "100%", "--device", "reference",
                                           "--max-num-batched-tokens", "7"});
  EXPECT_EQ(all.exit_code, 0) << all.out << all.err;
  EXPECT_THAT(all.out, HasSubstr("40 of 40 tokens drawn again"));

  // Changed so that its own digests give it away, whichever tokens are looked at.
  json changed = json::parse(TempFolder::Read(receipt));
  changed["choices"][0]["token_ids"][7] = 5;
  const std::string other = folder_.Write("other.json", changed.dump());
  const ProcessResult found = Run("replay", {other, "--positions", "5%"});
  EXPECT_EQ(found.exit_code, 1);
  EXPECT_THAT(found.out,
              StartsWith(other + ": DIFFERS  the receipt was changed: choice 0, digest: recorded"));
  for (const char* share : {"5", "0%", "101%", "x%", "-5%", "5%%"}) {
    const ProcessResult wrong = Run("replay", {receipt, "--positions", share});
    EXPECT_EQ(wrong.exit_code, 2) << share;
    EXPECT_THAT(wrong.err, HasSubstr("must be a percentage above 0% and up to 100%")) << share;
  }
}

TEST_F(ProofCommand, OrderPrintsTrees) {
  const ProcessResult order =
      Run("order", {"--rows", "1,5", "--keys", "40", "--trees", "--device", "cpu"});
  EXPECT_EQ(order.exit_code, 0) << order.out << order.err;
  EXPECT_THAT(order.out,
              AllOf(HasSubstr("ok    GEMM 267x32, fp32, 5 rows"),
                    HasSubstr("chain of 2 steps: 0..15 | 16..31\n"),
                    HasSubstr("chain of 3 steps: 0..15 | 16..31 | 32..39\n"),
                    HasSubstr("RMSNorm of 32, 1 row"),
                    HasSubstr("row sum of attention over 40 keys, 5 rows"), Not(HasSubstr("FAIL")),
                    HasSubstr("18 orders, 0 not the contract's")));
  EXPECT_EQ(Run("order", {"--rows", "0"}).exit_code, 2);
}

TEST_F(ProofCommand, GuaranteeNeedsNoModel) {
  const ProcessResult table = RunProcess(folder_, {IsobitPath(), "guarantee"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(StartsWith("| operation | type | device | level | proven by |\n"),
                               HasSubstr("| portable |"), HasSubstr("| refused |")));
}

TEST_F(ProofCommand, SchedulesComeFromFiles) {
  const std::string file = folder_.Write("schedule.json", R"({"format": "isobit schedule",
    "version": 1, "engine": {"max_num_seqs": 2, "max_num_batched_tokens": 5, "block_size": 16,
    "kv_cache_tokens": 64, "prefix_cache": true}, "poison_free_pages": true, "requests": [
    {"id": "a", "prompt_token_ids": [1, 2, 3], "sampling": {"max_tokens": 9, "seed": 1},
     "arrive_at_step": 0, "cancel_at_step": -1},
    {"id": "b", "prompt_token_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9], "sampling": {"max_tokens": 20,
     "seed": 2}, "arrive_at_step": 2, "cancel_at_step": 9}]})");
  const ProcessResult check = Run("check", {"--schedule", file});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_THAT(check.out, StartsWith("ok    2 requests as scheduled"));
  const std::string wrong = folder_.Write("wrong.json", "{\"format\": \"isobit schedule\"}");
  const ProcessResult refused = Run("check", {"--schedule", wrong});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr(wrong + ": version is missing"));
  EXPECT_EQ(Run("check", {"--schedule", "/nowhere"}).exit_code, 3);
}

// A receipt from a sound machine, replayed where one bit of the weights is another.
TEST_F(ProofCommand, AFlippedBitInTheModelFileIsNamed) {
  const std::string receipt = folder_.Path("receipt.json");
  ASSERT_EQ(Run("run", {"-p", "Hello", "-n", "4", "--receipt", receipt}).exit_code, 0);
  std::string file = TempFolder::Read(model_);
  file[file.size() - 64] ^= 4;  // tensors come last
  model_ = folder_.Write("flipped.gguf", file);
  for (const Arguments& how : {Arguments{receipt}, Arguments{receipt, "--positions", "5%"}}) {
    const ProcessResult replay = Run("replay", how);
    EXPECT_EQ(replay.exit_code, 1) << replay.err;
    EXPECT_THAT(replay.out, StartsWith(receipt + ": DIFFERS  model digest: recorded "));
  }
}

TEST_F(ProofCommand, AuditOfTheMachine) {
  const ProcessResult audit = Run("audit", {"--seconds", "0", "--requests", "4"});
  EXPECT_EQ(audit.exit_code, 0) << audit.out << audit.err;
  EXPECT_THAT(audit.out, AllOf(StartsWith("1 round, 192 tokens drawn twice in "),
                               HasSubstr(" s, 0 differ\n")));
  EXPECT_EQ(Run("audit", {"--requests", "0"}).exit_code, 2);
}

// What is done stands in a file: a second check runs the base alone again, and what is missing.
TEST_F(ProofCommand, CheckGoesOnAfterAnInterruption) {
  const std::string file = folder_.Path("progress.json");
  const Arguments arguments = {"--progress", file, "--schedules", "0"};
  const ProcessResult first = Run("check", arguments);
  ASSERT_EQ(first.exit_code, 0) << first.out << first.err;
  json progress = json::parse(TempFolder::Read(file));
  const size_t rows = progress["rows"].size();
  EXPECT_GT(rows, 20u);
  EXPECT_THAT(first.out, HasSubstr(std::to_string(rows) + " rows, 0 failed"));
  progress["rows"].erase(rows - 1);
  folder_.Write("progress.json", progress.dump());
  const ProcessResult second = Run("check", arguments);
  EXPECT_EQ(second.exit_code, 0) << second.out << second.err;
  EXPECT_THAT(second.out, AllOf(HasSubstr(std::to_string(rows - 1) + " rows were run before"),
                                HasSubstr("alone, twice"),
                                HasSubstr(std::to_string(rows) + " rows, 0 failed")));
  EXPECT_EQ(json::parse(TempFolder::Read(file))["rows"].size(), rows);

  const ProcessResult other = Run("check", {"--progress", file, "--schedules", "1"});
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.err, HasSubstr(file + ": is of another check"));
  for (const char* text : {"", "[]", R"({"format": "isobit check progress", "version": 2})"}) {
    const std::string wrong = folder_.Write("wrong.json", text);
    const ProcessResult refused = Run("check", {"--progress", wrong, "--schedules", "0"});
    EXPECT_EQ(refused.exit_code, 3) << text;
    EXPECT_THAT(refused.err, HasSubstr(wrong + ": "));
  }
  // What is there but can't be read is no new file.
  const ProcessResult folder = Run("check", {"--progress", folder_.Path(""), "--schedules", "0"});
  EXPECT_EQ(folder.exit_code, 3);
  EXPECT_THAT(folder.err, HasSubstr("cannot read " + folder_.Path("")));
}

TEST_F(ProofCommand, BatchIsAudited) {
  std::string requests;
  for (int i = 0; i < 30; ++i) {
    requests += "{\"id\": \"r" + std::to_string(i) +
                "\", \"prompt\": \"hello\", \"max_tokens\": 12, \"seed\": 1}\n";
  }
  const ProcessResult audited =
      Run("batch", {"-", "--audit", "1", "--log-level", "info", "--max-num-seqs", "2"}, requests);
  EXPECT_EQ(audited.exit_code, 0) << audited.err;
  EXPECT_THAT(audited.err, HasSubstr(" tokens computed again, 0 differ"));
  const ProcessResult off = Run("batch", {"-", "--audit", "0", "--log-level", "info"}, requests);
  EXPECT_THAT(off.err, Not(HasSubstr("audited")));
  EXPECT_EQ(ParseLines(off.out), ParseLines(audited.out));
  EXPECT_EQ(Run("batch", {"-", "--audit", "2"}, requests).exit_code, 2);
}

}  // namespace
}  // namespace isobit
