#include "runtime/api/completion_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "kernels/numerics/contract_version.h"
#include "nlohmann/json.hpp"

namespace isobit {
namespace {

constexpr Digest kModel = {1, 2};

Completion Example() {
  Completion completion;
  completion.id = "r1";
  completion.digest = {0x0123456789abcdef, 0xfedcba9876543210};
  completion.seed = 7;
  completion.prompt_token_ids = {3, 5};
  completion.prompt_logprobs = {TokenLogProbs{},
                                TokenLogProbs{5, -1.25f, {{5, -1.25f}, {9, -2.f}}}};
  Choice choice;
  choice.text = "a \"b\"\n";
  choice.token_ids = {9, 2};
  choice.finish_reason = FinishReason::kStop;
  choice.logprobs = {TokenLogProbs{9, -0.1f, {{9, -0.1f}}},
                     TokenLogProbs{2, -std::numeric_limits<float>::infinity(), {}}};
  choice.digest = {0, 15};
  completion.choices = {choice};
  completion.model_digest = kModel;
  completion.cached_tokens = 1;
  return completion;
}

// The whole line, so that names and their order can't change unnoticed.
TEST(CompletionToJson, IsThisLine) {
  EXPECT_EQ(
      CompletionToJson(Example()),
      R"({"id":"r1","digest":"0123456789abcdeffedcba9876543210","seed":7,)"
      R"("model_digest":"00000000000000010000000000000002","contract":)" +
          std::to_string(kContractVersion) +
          R"(,"prompt_token_ids":[3,5],)"
          R"("prompt_logprobs":[null,{"token_id":5,"logprob":-1.25,)"
          R"("top":[{"token_id":5,"logprob":-1.25},{"token_id":9,"logprob":-2.0}]}],)"
          R"("choices":[{"index":0,"text":"a \"b\"\n","token_ids":[9,2],"finish_reason":"stop",)"
          R"("logprobs":[{"token_id":9,"logprob":-0.1,"top":[{"token_id":9,"logprob":-0.1}]},)"
          R"({"token_id":2,"logprob":null,"top":[]}],)"
          R"("digest":"0000000000000000000000000000000f"}],)"
          R"("usage":{"prompt_tokens":2,"completion_tokens":2,"cached_tokens":1}})");
}

TEST(CompletionToJson, WhatWasNotAskedForIsNull) {
  Completion completion = Example();
  completion.seed.reset();
  completion.prompt_logprobs.reset();
  completion.choices[0].logprobs.reset();
  const nlohmann::json object = nlohmann::json::parse(CompletionToJson(completion));
  EXPECT_TRUE(object.at("seed").is_null());
  EXPECT_TRUE(object.at("prompt_logprobs").is_null());
  EXPECT_TRUE(object.at("choices").at(0).at("logprobs").is_null());
}

TEST(CompletionToJson, UsageCountsAllChoices) {
  Completion completion = Example();
  completion.choices.push_back(completion.choices[0]);
  completion.choices[1].index = 1;
  completion.choices[1].finish_reason = FinishReason::kLength;
  const nlohmann::json object = nlohmann::json::parse(CompletionToJson(completion));
  EXPECT_EQ(object.at("usage").at("completion_tokens"), 4);
  EXPECT_EQ(object.at("choices").at(1).at("index"), 1);
  EXPECT_EQ(object.at("choices").at(1).at("finish_reason"), "length");
}

TEST(ErrorToJson, HasAnErrorAndNothingElse) {
  EXPECT_EQ(ErrorToJson("r2", absl::InvalidArgumentError("top_p must be in (0, 1], got 2")),
            R"({"id":"r2","error":{"code":"invalid_request",)"
            R"("message":"top_p must be in (0, 1], got 2"}})");
  EXPECT_EQ(ErrorToJson(std::nullopt, absl::OutOfRangeError("x")),
            R"({"id":null,"error":{"code":"context_length_exceeded","message":"x"}})");
}

TEST(ErrorToJson, AnyMessageGivesValidJson) {
  const std::string line = ErrorToJson("i\xff", absl::InternalError("bytes \xfe \"quoted\"\n"));
  const nlohmann::json object = nlohmann::json::parse(line);
  EXPECT_EQ(object.at("error").at("code"), "internal");
  EXPECT_EQ(object.at("error").at("message"), "bytes \xef\xbf\xbd \"quoted\"\n");
}

TEST(ErrorCode, EachKind) {
  EXPECT_EQ(ErrorCode(absl::InvalidArgumentError("")), "invalid_request");
  EXPECT_EQ(ErrorCode(absl::OutOfRangeError("")), "context_length_exceeded");
  EXPECT_EQ(ErrorCode(absl::ResourceExhaustedError("")), "resource_exhausted");
  EXPECT_EQ(ErrorCode(absl::UnimplementedError("")), "unsupported");
  EXPECT_EQ(ErrorCode(absl::CancelledError("")), "cancelled");
  EXPECT_EQ(ErrorCode(absl::UnknownError("")), "internal");
}

}  // namespace
}  // namespace isobit
