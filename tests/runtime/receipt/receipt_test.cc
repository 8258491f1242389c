#include "runtime/receipt/receipt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/contract_version.h"
#include "nlohmann/json.hpp"

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Digest kModel = {11, 12};

SamplingParams ExampleSampling() {
  SamplingParams params;
  params.max_tokens = 3;
  params.temperature = 0.7;
  params.top_p = 0.9;
  params.n = 2;
  params.logit_bias = {{5, -2.5}, {70, 1}};
  params.stop = {"\n", "END"};
  params.logprobs = 2;
  params.prompt_logprobs = 1;
  return params;
}

Completion ExampleCompletion() {
  Completion completion;
  completion.id = "r1";
  completion.digest = {1, 2};
  completion.seed = UINT64_MAX;
  completion.prompt_token_ids = {3, 5};
  completion.prompt_logprobs = {TokenLogProbs{}, TokenLogProbs{5, -1.25f, {{5, -1.25f}}}};
  completion.cached_tokens = 1;
  for (int i = 0; i < 2; ++i) {
    Choice choice;
    choice.index = i;
    choice.text = "t\xc3\xa9xt";
    choice.token_ids = {9, 10, 2};
    choice.finish_reason = i == 0 ? FinishReason::kStop : FinishReason::kLength;
    choice.logprobs = {TokenLogProbs{9, -0.1f, {{9, -0.1f}, {8, -3.f}}},
                       TokenLogProbs{10, -1e-8f, {}},
                       TokenLogProbs{2, -std::numeric_limits<float>::infinity(), {}}};
    choice.digest = {3, static_cast<uint64_t>(i)};
    completion.choices.push_back(choice);
  }
  return completion;
}

Receipt ExampleReceipt() {
  absl::StatusOr<Receipt> receipt =
      MakeReceipt("isobit test", "model", kModel, ExampleSampling(), ExampleCompletion());
  EXPECT_TRUE(receipt.ok()) << receipt.status();
  return *std::move(receipt);
}

TEST(AskForReceipt, TurnsOnLogProbsOnlyIfOff) {
  SamplingParams params;
  AskForReceipt(params);
  EXPECT_EQ(params.logprobs, 0);
  params.logprobs = 5;
  AskForReceipt(params);
  EXPECT_EQ(params.logprobs, 5);
}

TEST(MakeReceipt, KeepsTheSeedThatWasUsed) {
  const Receipt receipt = ExampleReceipt();
  EXPECT_EQ(receipt.sampling.seed, UINT64_MAX);
  EXPECT_EQ(receipt.contract, kContractVersion);
}

TEST(MakeReceipt, RefusesWhatCanNotBeReplayed) {
  Completion cancelled = ExampleCompletion();
  cancelled.choices[1].finish_reason = FinishReason::kCancelled;
  EXPECT_FALSE(MakeReceipt("", "", kModel, {}, cancelled).ok());
  Completion bare = ExampleCompletion();
  bare.choices[0].logprobs.reset();
  EXPECT_FALSE(MakeReceipt("", "", kModel, {}, bare).ok());
}

TEST(RequestOf, IsThePromptAsIdsWithTheRecordedSampling) {
  const Request request = RequestOf(ExampleReceipt());
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompt), (std::vector<int32_t>{3, 5}));
  EXPECT_EQ(request.sampling.seed, UINT64_MAX);
  EXPECT_EQ(request.sampling.temperature, 0.7);
  EXPECT_EQ(request.sampling.n, 2);
  EXPECT_EQ(request.sampling.stop, (std::vector<std::string>{"\n", "END"}));
  EXPECT_EQ(request.sampling.logprobs, 0) << "else the replay has nothing to compare";
  EXPECT_EQ(request.sampling.prompt_logprobs, 0);
}

TEST(Receipt, ComesBackFromText) {
  const Receipt receipt = ExampleReceipt();
  const std::string text = ReceiptToJson(receipt);
  const absl::StatusOr<Receipt> back = ParseReceipt(text);
  ASSERT_TRUE(back.ok()) << back.status() << text;
  EXPECT_EQ(ReceiptToJson(*back), text);
  EXPECT_TRUE(Compare(*back, receipt.completion).ok());
  EXPECT_TRUE(Compare(receipt, back->completion).ok());
  EXPECT_TRUE(CheckReplayable(*back, kModel).ok());
  EXPECT_EQ(back->build, "isobit test");
  EXPECT_EQ(back->model_name, "model");
}

TEST(Receipt, GreedyHasNoSeed) {
  Completion completion = ExampleCompletion();
  completion.seed.reset();
  completion.prompt_logprobs.reset();
  const absl::StatusOr<Receipt> receipt =
      MakeReceipt("", "", kModel, ExampleSampling(), completion);
  ASSERT_TRUE(receipt.ok());
  const absl::StatusOr<Receipt> back = ParseReceipt(ReceiptToJson(*receipt));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->sampling.seed, std::nullopt);
  EXPECT_EQ(back->completion.prompt_logprobs, std::nullopt);
}

TEST(Receipt, LogProbsComeBackBitForBit) {
  std::mt19937 random(3);
  Completion completion = ExampleCompletion();
  Choice& choice = completion.choices[0];
  choice.token_ids.clear();
  choice.logprobs->clear();
  while (choice.token_ids.size() < 20000) {
    const auto logprob = std::bit_cast<float>(static_cast<uint32_t>(random()) | 0x80000000u);
    if (!std::isfinite(logprob)) continue;
    choice.token_ids.push_back(1);
    choice.logprobs->push_back(TokenLogProbs{1, logprob, {}});
  }
  const absl::StatusOr<Receipt> receipt = MakeReceipt("", "", kModel, {}, completion);
  ASSERT_TRUE(receipt.ok());
  const absl::StatusOr<Receipt> back = ParseReceipt(ReceiptToJson(*receipt));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(Compare(*back, completion).ok()) << Compare(*back, completion);
}

// ---- Compare names the first difference

std::string DifferenceAfter(const std::function<void(Completion&)>& change) {
  Completion replayed = ExampleCompletion();
  change(replayed);
  return std::string(Compare(ExampleReceipt(), replayed).message());
}

TEST(Compare, EqualIsOk) {
  EXPECT_TRUE(Compare(ExampleReceipt(), ExampleCompletion()).ok());
  // What depends on the schedule is not compared.
  EXPECT_EQ(DifferenceAfter([](Completion& c) { c.cached_tokens = 100; }), "");
}

TEST(Compare, OneBitOfALogProb) {
  EXPECT_EQ(DifferenceAfter([](Completion& c) {
              float& logprob = (*c.choices[1].logprobs)[1].logprob;
              logprob = std::bit_cast<float>(std::bit_cast<uint32_t>(logprob) ^ 1);
            }),
            "choice 1, token 1, logprob: recorded -1e-08 (b22bcc77), replayed -9.999999e-09 "
            "(b22bcc76)");
}

TEST(Compare, EveryBitOfALogProb) {
  for (int bit = 0; bit < 32; ++bit) {
    const std::string difference = DifferenceAfter([bit](Completion& c) {
      float& logprob = (*c.choices[0].logprobs)[0].logprob;
      logprob = std::bit_cast<float>(std::bit_cast<uint32_t>(logprob) ^ (1u << bit));
    });
    EXPECT_THAT(difference, HasSubstr("choice 0, token 0, logprob: recorded -0.1 (bdcccccd)"));
  }
}

TEST(Compare, SignOfZero) {
  Completion recorded = ExampleCompletion(), replayed = recorded;
  (*recorded.choices[0].logprobs)[0].logprob = 0.0f;
  (*replayed.choices[0].logprobs)[0].logprob = -0.0f;
  const Receipt receipt = *MakeReceipt("", "", kModel, {}, recorded);
  EXPECT_THAT(std::string(Compare(*ParseReceipt(ReceiptToJson(receipt)), replayed).message()),
              HasSubstr("recorded 0 (00000000), replayed -0 (80000000)"));
}

TEST(Compare, EverythingElseByName) {
  EXPECT_EQ(DifferenceAfter([](Completion& c) { c.choices[0].token_ids[2] = 3; }),
            "choice 0, token 2, id: recorded 2, replayed 3");
  EXPECT_EQ(DifferenceAfter([](Completion& c) {
              c.choices[1].token_ids.pop_back();
              c.choices[1].logprobs->pop_back();
            }),
            "choice 1, number of tokens: recorded 3, replayed 2");
  EXPECT_EQ(
      DifferenceAfter([](Completion& c) { c.choices[0].finish_reason = FinishReason::kLength; }),
      "choice 0, finish_reason: recorded stop, replayed length");
  EXPECT_THAT(DifferenceAfter([](Completion& c) { c.choices[0].text += "!"; }),
              AllOf(HasSubstr("choice 0, text"), HasSubstr("xt!\"")));
  EXPECT_THAT(DifferenceAfter([](Completion& c) { c.choices[1].digest.low ^= 1; }),
              HasSubstr("choice 1, digest: recorded"));
  EXPECT_THAT(DifferenceAfter([](Completion& c) { c.digest.high ^= uint64_t{1} << 63; }),
              HasSubstr("digest: recorded 00000000000000010000000000000002"));
  EXPECT_EQ(DifferenceAfter([](Completion& c) { c.choices.pop_back(); }),
            "number of choices: recorded 2, replayed 1");
  EXPECT_THAT(DifferenceAfter([](Completion& c) { (*c.prompt_logprobs)[1].logprob = -1; }),
              HasSubstr("prompt token 1, logprob: recorded -1.25"));
  EXPECT_EQ(DifferenceAfter([](Completion& c) { c.prompt_token_ids[0] = 4; }),
            "prompt token 0, id: recorded 3, replayed 4");
  EXPECT_THAT(DifferenceAfter([](Completion& c) { c.choices[0].logprobs.reset(); }),
              HasSubstr("choice 0, token 0, logprob"));
}

TEST(Compare, TheEarlierDifferenceIsNamed) {
  EXPECT_THAT(DifferenceAfter([](Completion& c) {
                c.digest = {};
                c.choices[0].digest = {};
                c.choices[0].text.clear();
                c.choices[0].token_ids = {9, 10, 3};
                (*c.choices[0].logprobs)[1].logprob = -5;
              }),
              HasSubstr("choice 0, token 1, logprob"));
}

TEST(CheckReplayable, NamesAnotherModelAndContract) {
  Receipt receipt = ExampleReceipt();
  EXPECT_THAT(std::string(CheckReplayable(receipt, {11, 13}).message()),
              AllOf(HasSubstr("model digest: recorded 000000000000000b000000000000000c"),
                    HasSubstr("000000000000000b000000000000000d")));
  receipt.contract = kContractVersion + 1;
  EXPECT_THAT(std::string(CheckReplayable(receipt, kModel).message()),
              HasSubstr("contract version: recorded"));
}

// ---- Strict reading

std::string ErrorAfter(const std::function<void(json&)>& change) {
  json document = json::parse(ReceiptToJson(ExampleReceipt()));
  change(document);
  const absl::StatusOr<Receipt> receipt = ParseReceipt(document.dump());
  return receipt.ok() ? "" : std::string(receipt.status().message());
}

TEST(ParseReceipt, EveryFieldIsNeeded) {
  const json document = json::parse(ReceiptToJson(ExampleReceipt()));
  int fields = 0;
  for (const auto& [name, value] : document.items()) {
    EXPECT_THAT(ErrorAfter([&name = name](json& d) { d.erase(name); }),
                HasSubstr(name + " is missing"));
    ++fields;
  }
  for (const auto& [name, value] : document.at("choices").at(1).items()) {
    EXPECT_THAT(ErrorAfter([&name = name](json& d) { d["choices"][1].erase(name); }),
                HasSubstr(absl::StrCat("choices[1].", name, " is missing")));
    ++fields;
  }
  EXPECT_EQ(fields, 17);
}

TEST(ParseReceipt, NoFieldIsUnknown) {
  EXPECT_THAT(ErrorAfter([](json& d) { d["extra"] = 1; }), HasSubstr("1 fields that receipts"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["choices"][0]["extra"] = 1; }), HasSubstr("choices[0]"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["model"]["extra"] = 1; }), HasSubstr("model has 1"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["sampling"]["extra"] = 1; }),
              HasSubstr("unknown field \"extra\" in sampling"));
}

TEST(ParseReceipt, OtherFormatsAndVersionsAreNamed) {
  EXPECT_THAT(ErrorAfter([](json& d) { d["version"] = 2; }),
              HasSubstr("version must be 1, the one this build reads, got 2"));
  // Whatever else a later version holds.
  EXPECT_THAT(ErrorAfter([](json& d) {
                d = {{"format", "isobit receipt"}, {"version", 9}};
              }),
              HasSubstr("version must be 1"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["format"] = "receipt"; }), HasSubstr("format must be"));
  EXPECT_THAT(ErrorAfter([](json& d) { d = json::array(); }), HasSubstr("must be an object"));
}

TEST(ParseReceipt, TypesAndLengthsAreChecked) {
  EXPECT_THAT(ErrorAfter([](json& d) { d["digest"] = "xyz"; }), HasSubstr("digest: "));
  EXPECT_THAT(ErrorAfter([](json& d) { d["contract"] = "1"; }), HasSubstr("contract must be"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["choices"] = json::array(); }),
              HasSubstr("choices must be"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["choices"][1]["index"] = 0; }),
              HasSubstr("choices[1].index must be 1, got 0"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["choices"][0]["logprobs"].push_back(-1); }),
              HasSubstr("choices[0].logprobs must be an array of 3"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["choices"][0]["logprobs"][0] = "x"; }),
              HasSubstr("choices[0].logprobs[0] must be a number"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["choices"][0]["logprobs"][0] = 1e300; }),
              HasSubstr("fp32"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["choices"][0]["finish_reason"] = "cancelled"; }),
              HasSubstr("choices[0].finish_reason"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["prompt_logprobs"][0] = -1; }),
              HasSubstr("prompt_logprobs[0] must be null"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["prompt_token_ids"][0] = 0.5; }),
              HasSubstr("prompt_token_ids[0]"));
  EXPECT_THAT(ErrorAfter([](json& d) { d["sampling"]["top_p"] = "x"; }), HasSubstr("top_p"));
}

// One wrong byte anywhere: an error, or a receipt that can be read; never a crash.
TEST(ParseReceipt, SurvivesDamage) {
  const std::string text = ReceiptToJson(ExampleReceipt());
  std::mt19937 random(4);
  int readable = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = text;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    readable += ParseReceipt(damaged).ok();
  }
  EXPECT_GT(readable, 0);
  EXPECT_LT(readable, 20000);
}

// A changed digit of a log-probability, id or digest never goes unnoticed.
TEST(ParseReceipt, ADigitThatChangedIsADifference) {
  const std::string text = ReceiptToJson(ExampleReceipt());
  const size_t results = text.find("\"prompt_token_ids\"");
  int changed = 0;
  for (size_t i = results; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '8') continue;
    std::string other = text;
    ++other[i];
    const absl::StatusOr<Receipt> receipt = ParseReceipt(other);
    if (!receipt.ok()) continue;
    EXPECT_FALSE(Compare(*receipt, ExampleCompletion()).ok()) << "byte " << i;
    ++changed;
  }
  EXPECT_GT(changed, 50);
}

// ---- Files

TEST(ReceiptFile, WritesAndReads) {
  const std::string path =
      ::testing::TempDir() + "receipt_test." + std::to_string(getpid()) + ".json";
  ASSERT_TRUE(WriteReceipt(path, ExampleReceipt()).ok());
  const absl::StatusOr<Receipt> receipt = ReadReceipt(path);
  ASSERT_TRUE(receipt.ok()) << receipt.status();
  EXPECT_TRUE(Compare(*receipt, ExampleCompletion()).ok());
  std::ofstream(path, std::ios::app) << "x";
  EXPECT_THAT(std::string(ReadReceipt(path).status().message()),
              AllOf(HasSubstr(path), HasSubstr("not valid JSON")));
  std::remove(path.c_str());
}

TEST(ReceiptFile, ErrorsNameThePath) {
  EXPECT_THAT(std::string(ReadReceipt("/nowhere/r.json").status().message()),
              AllOf(HasSubstr("/nowhere/r.json"), HasSubstr("No such file")));
  EXPECT_THAT(std::string(ReadReceipt("/").status().message()), HasSubstr("cannot read /"));
  EXPECT_THAT(std::string(WriteReceipt("/nowhere/r.json", ExampleReceipt()).message()),
              HasSubstr("/nowhere/r.json"));
}

}  // namespace
}  // namespace isobit
