#include "tools/isobit/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/numerics/contract_version.h"
#include "runtime/api/completion_json.h"
#include "tests/tools/isobit/temp_folder.h"

namespace isobit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Digest kModel = {1, 2};

// What a batch wrote for a request.
std::string Answer(std::string id, std::optional<uint64_t> seed = std::nullopt,
                   const Digest& model = kModel) {
  Completion completion;
  completion.id = std::move(id);
  completion.seed = seed;
  completion.prompt_token_ids = {1, 2};
  completion.choices.emplace_back();
  completion.model_digest = model;
  return CompletionToJson(completion) + "\n";
}

constexpr char kRequests[] =
    R"({"id": "a", "prompt": "x", "temperature": 0}
{"id": "b", "prompt_token_ids": [1, 2], "seed": 7}
not json

{"id": "d", "prompt": "x"}
)";

std::string Error(const std::optional<std::string>& id) {
  return ErrorToJson(id, absl::InvalidArgumentError("")) + "\n";
}

// What came of resuming: the answered requests or the error, what is left of the output, and the
// rest of the input.
struct Resumed {
  absl::StatusOr<Answered> answered;
  std::string output;
  std::vector<std::string> left;
};

Resumed Resume(std::string_view requests, std::string_view output) {
  const TempFolder folder;
  const std::string path = folder.Write("out", output);
  absl::StatusOr<LineReader> input = LineReader::Open(folder.Write("in", requests), 1000);
  absl::StatusOr<OutputFile> file = OutputFile::Open(path);
  Resumed resumed{ResumeAfter(kModel, *input, *file), {}, {}};
  if (resumed.answered.ok()) {
    EXPECT_TRUE(file->Append("|").ok());  // shows where the next answer would go
    while (true) {
      while (std::optional<Line> line = input->Next()) resumed.left.push_back(line->text);
      if (input->at_end()) break;
      EXPECT_TRUE(input->Fill().ok());
    }
  }
  resumed.output = TempFolder::Read(path);
  return resumed;
}

TEST(Resume, AnEmptyOutput) {
  const Resumed resumed = Resume(kRequests, "");
  ASSERT_TRUE(resumed.answered.ok()) << resumed.answered.status();
  EXPECT_EQ(resumed.answered->requests, 0);
  EXPECT_EQ(resumed.output, "|");
  EXPECT_EQ(resumed.left.size(), 4u);
}

TEST(Resume, GoesOnAfterWholeLines) {
  const std::string output = Answer("a") + Answer("b", 7) + Error(std::nullopt);
  const Resumed resumed = Resume(kRequests, output);
  ASSERT_TRUE(resumed.answered.ok()) << resumed.answered.status();
  EXPECT_EQ(resumed.answered->requests, 3);
  EXPECT_EQ(resumed.answered->failed, 1);
  EXPECT_EQ(resumed.output, output + "|");
  EXPECT_EQ(resumed.left, (std::vector<std::string>{R"({"id": "d", "prompt": "x"})"}));
}

// Whatever part of the last line reached the disk.
TEST(Resume, CutsATornLine) {
  const std::string whole = Answer("a"), torn = Answer("b", 7);
  for (size_t size = 1; size < torn.size(); size += 23) {
    const Resumed resumed = Resume(kRequests, whole + torn.substr(0, size));
    ASSERT_TRUE(resumed.answered.ok()) << resumed.answered.status();
    EXPECT_EQ(resumed.answered->requests, 1);
    EXPECT_EQ(resumed.output, whole + "|");
    EXPECT_EQ(resumed.left.size(), 3u);
  }
}

TEST(Resume, EverythingAnswered) {
  const std::string output = Answer("a") + Answer("b", 7) + Error(std::nullopt) + Answer("d", 9);
  const Resumed resumed = Resume(kRequests, output);
  ASSERT_TRUE(resumed.answered.ok()) << resumed.answered.status();
  EXPECT_EQ(resumed.answered->requests, 4);
  EXPECT_TRUE(resumed.left.empty());
}

// A refusal names the line and changes nothing.
void ExpectRefused(const std::string& output, const char* reason,
                   std::string_view requests = kRequests) {
  const Resumed resumed = Resume(requests, output);
  EXPECT_EQ(resumed.answered.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(resumed.answered.status().message()),
              AllOf(HasSubstr("can't resume: line "), HasSubstr(reason)));
  EXPECT_EQ(resumed.output, output);
}

TEST(Resume, RefusesTheOutputOfOtherRequests) {
  ExpectRefused(Answer("b", 7), "id is \"b\", not \"a\"");
  ExpectRefused(Answer("a") + Answer("a"), "line 2 of");
  ExpectRefused(Error("b"), "id is \"b\", not \"a\"");
  ExpectRefused(Error(std::nullopt), "id is null, not \"a\"");
  ExpectRefused(Answer("a") + Answer("b", 8), "seed is 8, not 7");
  ExpectRefused(Answer("a") + Answer("b", 7) + Answer("c"), "id is \"c\", not null");
  ExpectRefused(Answer("b", 7), "prompt_token_ids are others",
                R"({"id": "b", "prompt_token_ids": [1, 3], "seed": 7})");
  ExpectRefused(Answer("a") + Answer("b", 7), "has no request for it",
                R"({"id": "a", "prompt": "x", "temperature": 0})");
}

TEST(Resume, RefusesAnotherModelOrContract) {
  ExpectRefused(Answer("a", std::nullopt, {1, 3}), "model_digest is");
  std::string other = Answer("a");
  const std::string contract = "\"contract\":" + std::to_string(kContractVersion);
  other.replace(other.find(contract), contract.size(), "\"contract\":99");
  ExpectRefused(other, "contract is 99");
}

TEST(Resume, RefusesWhatIsNoOutput) {
  ExpectRefused("hello\n", "not valid JSON");
  ExpectRefused("[1]\n", "an answer must be an object");
  ExpectRefused("{}\n", "id is null");
}

}  // namespace
}  // namespace isobit
