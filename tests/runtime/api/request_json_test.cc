#include "runtime/api/request_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isobit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

Request Parse(std::string_view line) {
  ParsedRequest parsed = ParseRequest(line);
  EXPECT_TRUE(parsed.request.ok()) << line << ": " << parsed.request.status();
  return parsed.request.ok() ? *std::move(parsed.request) : Request();
}

std::string ErrorOf(std::string_view line) {
  const ParsedRequest parsed = ParseRequest(line);
  if (parsed.request.ok()) return "";
  EXPECT_EQ(parsed.request.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.request.status().message());
}

TEST(ParseRequest, DefaultsAreTheApis) {
  const Request request = Parse(R"({"id": "r1", "prompt": "Hello"})");
  EXPECT_EQ(request.id, "r1");
  EXPECT_EQ(std::get<std::string>(request.prompt), "Hello");
  const SamplingParams& p = request.sampling;
  EXPECT_EQ(p.max_tokens, 16);
  EXPECT_EQ(p.min_tokens, 0);
  EXPECT_EQ(p.temperature, 1);
  EXPECT_EQ(p.top_k, 0);
  EXPECT_EQ(p.top_p, 1);
  EXPECT_EQ(p.min_p, 0);
  EXPECT_EQ(p.seed, std::nullopt);
  EXPECT_EQ(p.n, 1);
  EXPECT_EQ(p.presence_penalty, 0);
  EXPECT_EQ(p.frequency_penalty, 0);
  EXPECT_EQ(p.repetition_penalty, 1);
  EXPECT_THAT(p.logit_bias, IsEmpty());
  EXPECT_THAT(p.stop, IsEmpty());
  EXPECT_THAT(p.stop_token_ids, IsEmpty());
  EXPECT_FALSE(p.ignore_eos);
  EXPECT_EQ(p.logprobs, std::nullopt);
  EXPECT_EQ(p.prompt_logprobs, std::nullopt);
  EXPECT_EQ(p.logprobs_mode, LogProbsMode::kRaw);
}

TEST(ParseRequest, EveryField) {
  const Request request = Parse(R"({
    "id": "r1", "prompt_token_ids": [1, 2], "max_tokens": 64, "min_tokens": 3, "temperature": 0.5,
    "top_k": 40, "top_p": 0.9, "min_p": 0.05, "seed": 18446744073709551615, "n": 2,
    "presence_penalty": 0.5, "frequency_penalty": -0.25, "repetition_penalty": 1.2,
    "logit_bias": {"50": -2.5, "7": 1, "100": 3}, "stop": ["\n", "END"], "stop_token_ids": [2],
    "ignore_eos": true, "logprobs": 5, "prompt_logprobs": 0, "logprobs_mode": "processed"})");
  EXPECT_THAT(std::get<std::vector<int32_t>>(request.prompt), ElementsAre(1, 2));
  const SamplingParams& p = request.sampling;
  EXPECT_EQ(p.max_tokens, 64);
  EXPECT_EQ(p.min_tokens, 3);
  EXPECT_EQ(p.temperature, 0.5);
  EXPECT_EQ(p.top_k, 40);
  EXPECT_EQ(p.top_p, 0.9);
  EXPECT_EQ(p.min_p, 0.05);
  EXPECT_EQ(p.seed, UINT64_MAX);
  EXPECT_EQ(p.n, 2);
  EXPECT_EQ(p.presence_penalty, 0.5);
  EXPECT_EQ(p.frequency_penalty, -0.25);
  EXPECT_EQ(p.repetition_penalty, 1.2);
  EXPECT_THAT(p.logit_bias, ElementsAre(Pair(7, 1), Pair(50, -2.5), Pair(100, 3)));
  EXPECT_THAT(p.stop, ElementsAre("\n", "END"));
  EXPECT_THAT(p.stop_token_ids, ElementsAre(2));
  EXPECT_TRUE(p.ignore_eos);
  EXPECT_EQ(p.logprobs, 5);
  EXPECT_EQ(p.prompt_logprobs, 0);
  EXPECT_EQ(p.logprobs_mode, LogProbsMode::kProcessed);
}

TEST(ParseRequest, Messages) {
  const Request request = Parse(
      R"({"id": "m", "messages": [{"role": "system", "content": ""}, {"role": "user", "content": "hi"}]})");
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompt);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "");
  EXPECT_EQ(messages[1].role, "user");
  EXPECT_EQ(messages[1].content, "hi");
}

TEST(ParseRequest, NullsAndASingleStopThatClientsSend) {
  const Request request = Parse(
      R"({"id": "r", "prompt": "", "seed": null, "logprobs": null, "prompt_logprobs": null,
          "logit_bias": null, "stop": "\n"})");
  EXPECT_EQ(request.sampling.seed, std::nullopt);
  EXPECT_THAT(request.sampling.stop, ElementsAre("\n"));
  EXPECT_THAT(Parse(R"({"id": "r", "prompt": "", "stop": null})").sampling.stop, IsEmpty());
}

TEST(ParseRequest, TextKeepsEveryCharacter) {
  const Request request = Parse(R"({"id": "r", "prompt": "a\u0000\ud83d\ude00\u2028"})");
  EXPECT_EQ(std::get<std::string>(request.prompt),
            std::string("a\0\xf0\x9f\x98\x80\xe2\x80\xa8", 9));
}

struct BadField {
  const char* field;  // must stand in the message
  const char* json;   // beside the id, and for sampling parameters a prompt
  const char* reason;
};

void ExpectNamed(const BadField& bad, const std::string& prefix) {
  const std::string line = R"({"id": "b", )" + prefix + bad.json + "}";
  EXPECT_THAT(ErrorOf(line), AllOf(HasSubstr(bad.field), HasSubstr(bad.reason))) << line;
  EXPECT_EQ(ParseRequest(line).id, "b") << "an error keeps its request's id";
}

class BadSampling : public ::testing::TestWithParam<BadField> {};

TEST_P(BadSampling, IsNamed) { ExpectNamed(GetParam(), R"("prompt": "x", )"); }

INSTANTIATE_TEST_SUITE_P(
    EachField, BadSampling,
    ::testing::Values(
        BadField{"temprature", R"("temprature": 1)", "unknown field \"temprature\""},
        BadField{"add_generation_prompt", R"("add_generation_prompt": true)", "unknown field"},
        BadField{"max_tokens", R"("max_tokens": 1.5)", "must be an integer"},
        BadField{"max_tokens", R"("max_tokens": null)", "got null"},
        BadField{"max_tokens", R"("max_tokens": 1e3)", "got 1000.0"},
        BadField{"max_tokens", R"("max_tokens": 9223372036854775808)", "to 9223372036854775807"},
        BadField{"min_tokens", R"("min_tokens": "1")", "must be an integer"},
        BadField{"temperature", R"("temperature": "hot")", "must be a number, got \"hot\""},
        BadField{"temperature", R"("temperature": null)", "must be a number"},
        BadField{"top_k", R"("top_k": 0.5)", "must be an integer"},
        BadField{"top_p", R"("top_p": true)", "must be a number"},
        BadField{"min_p", R"("min_p": [])", "got an array of 0"},
        BadField{"seed", R"("seed": "x")", "must be an integer"},
        BadField{"seed", R"("seed": -1)", "from 0 to 18446744073709551615, got -1"},
        BadField{"seed", R"("seed": 18446744073709551616)", "must be an integer"},
        BadField{"n", R"("n": {})", "got an object"},
        BadField{"presence_penalty", R"("presence_penalty": "1")", "must be a number"},
        BadField{"frequency_penalty", R"("frequency_penalty": "1")", "must be a number"},
        BadField{"repetition_penalty", R"("repetition_penalty": "1")", "must be a number"},
        BadField{"logit_bias", R"("logit_bias": {"x": 1})", "a token id"},
        BadField{"logit_bias", R"("logit_bias": {"07": 1})", "a token id"},
        BadField{"logit_bias", R"("logit_bias": {"": 1})", "a token id"},
        BadField{"logit_bias", R"("logit_bias": {"99999999999": 1})", "a token id"},
        BadField{"logit_bias", R"("logit_bias": {"5": "1"})", "of token 5 must be a number"},
        BadField{"logit_bias", R"("logit_bias": [[5, 1]])", "an object of token ids"},
        BadField{"stop", R"("stop": [1])", "stop[0] must be a string, got 1"},
        BadField{"stop", R"("stop": 1)", "a string or an array of strings"},
        BadField{"stop_token_ids", R"("stop_token_ids": [1.5])", "stop_token_ids[0]"},
        BadField{"stop_token_ids", R"("stop_token_ids": 2)", "must be an array"},
        BadField{"ignore_eos", R"("ignore_eos": 0)", "true or false"},
        BadField{"logprobs", R"("logprobs": true)", "must be an integer"},
        BadField{"prompt_logprobs", R"("prompt_logprobs": "5")", "must be an integer"},
        BadField{"logprobs_mode", R"("logprobs_mode": "cooked")", "\"raw\" or \"processed\""},
        BadField{"logprobs_mode", R"("logprobs_mode": null)", "got null"}));

class BadPrompt : public ::testing::TestWithParam<BadField> {};

TEST_P(BadPrompt, IsNamed) { ExpectNamed(GetParam(), ""); }

INSTANTIATE_TEST_SUITE_P(
    EachKind, BadPrompt,
    ::testing::Values(
        BadField{"prompt", R"("prompt": 7)", "must be a string, got 7"},
        BadField{"prompt", R"("prompt": null)", "must be a string"},
        BadField{"prompt", R"("max_tokens": 1)", "needs one of prompt"},
        BadField{"prompt_token_ids", R"("prompt": "x", "prompt_token_ids": [1])",
                 "got prompt and prompt_token_ids"},
        BadField{"messages", R"("prompt": "x", "messages": [{"role": "user", "content": ""}])",
                 "and messages"},
        BadField{"prompt_token_ids", R"("prompt_token_ids": [1, 1.5])", "prompt_token_ids[1]"},
        BadField{"prompt_token_ids", R"("prompt_token_ids": [4294967296])", "got 4294967296"},
        BadField{"prompt_token_ids", R"("prompt_token_ids": ["1"])", "got \"1\""},
        BadField{"prompt_token_ids", R"("prompt_token_ids": "1 2")", "an array of token ids"},
        BadField{"messages", R"("messages": [])", "at least one message"},
        BadField{"messages", R"("messages": {"role": "user"})", "an array"},
        BadField{"messages", R"("messages": ["hi"])", "messages[0] must be an object"},
        BadField{"messages", R"("messages": [{"role": "user"}])", "messages[0].content is missing"},
        BadField{"messages", R"("messages": [{"content": "x"}])", "messages[0].role is missing"},
        BadField{"messages", R"("messages": [{"role": 1, "content": "x"}])", "messages[0].role"},
        BadField{"messages", R"("messages": [{"role": "u", "content": null}])",
                 "messages[0].content must be a string"},
        BadField{"messages", R"("messages": [{"role": "u", "content": "x", "nme": "y"}])",
                 "unknown field \"nme\" in messages[0]"},
        BadField{"tools", R"("messages": [{"role": "u", "content": "x"}], "tools": {})",
                 "tools must be an array of objects"},
        BadField{"tools", R"("messages": [{"role": "u", "content": "x"}], "tools": [1])",
                 "tools must be an array of objects"},
        BadField{"tools", R"("prompt": "x", "tools": [])", "tools must come with messages"},
        BadField{"chat_template_kwargs",
                 R"("messages": [{"role": "u", "content": "x"}], "chat_template_kwargs": [])",
                 "chat_template_kwargs must be an object"}));

// What only the chat template reads is kept as JSON, its members in their order.
TEST(ParseRequest, ToolsAndMoreReachTheTemplate) {
  const std::string line =
      R"({"id":"t","messages":[{"role":"user","content":[{"type":"text","text":"é"}]},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"z":1,"a":{"y":2.5,"b":[]}}]},)"
      R"({"role":"tool","content":"7","tool_call_id":"c"}],"tools":[{"type":"function","a":1}],)"
      R"("chat_template_kwargs":{"enable_thinking":false})";
  const Request request = Parse(line + "}");
  const auto& messages = std::get<std::vector<ChatMessage>>(request.prompt);
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[0].fields, R"({"content":[{"type":"text","text":"é"}]})");
  EXPECT_EQ(messages[1].fields,
            R"({"content":null,"tool_calls":[{"z":1,"a":{"y":2.5,"b":[]}}]})");
  EXPECT_EQ(messages[2].content, "7");
  EXPECT_EQ(messages[2].fields, R"({"tool_call_id":"c"})");
  EXPECT_EQ(request.tools, R"([{"type":"function","a":1}])");
  EXPECT_EQ(request.chat_template_kwargs, R"({"enable_thinking":false})");
  EXPECT_TRUE(RequestToJson(request).starts_with(line)) << RequestToJson(request);
}

TEST(ParseRequest, IdIsRequiredAndText) {
  EXPECT_EQ(ErrorOf(R"({"prompt": "x"})"), "id is missing");
  EXPECT_EQ(ErrorOf(R"({"id": 7, "prompt": "x"})"), "id must be a string, got 7");
  EXPECT_EQ(ParseRequest(R"({"id": 7, "prompt": "x"})").id, std::nullopt);
}

TEST(ParseRequest, WhatIsNoObject) {
  EXPECT_EQ(ErrorOf("[1,2]"), "a request must be a JSON object, got an array of 2");
  EXPECT_EQ(ErrorOf("7"), "a request must be a JSON object, got 7");
  EXPECT_THAT(ErrorOf(R"({"id": "broken", "prompt": "x")"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ErrorOf("{\"id\":\"utf8\",\"prompt\":\"\xff\xfe\"}"), HasSubstr("UTF-8"));
  EXPECT_THAT(ErrorOf(R"({"id":"nan","prompt":"a","temperature":NaN})"),
              HasSubstr("invalid literal"));
  EXPECT_THAT(ErrorOf(R"({"id": "a", "prompt": "x", "id": "b"})"),
              HasSubstr("\"id\" stands twice"));
}

TEST(ParseRequest, LengthIsBounded) {
  const std::string line =
      R"({"id": "a", "prompt": ")" + std::string(kMaxRequestBytes, 'x') + "\"}";
  EXPECT_THAT(ErrorOf(line), HasSubstr("at most 16777216 bytes"));
}

// ---- parse(print(x)) == x

class RandomRequests {
 public:
  explicit RandomRequests(uint32_t seed) : random_(seed) {}

  Request Next() {
    Request request;
    request.id = Text();
    switch (Below(3)) {
      case 0:
        request.prompt = Text();
        break;
      case 1:
        request.prompt = Ids();
        break;
      default:
        std::vector<ChatMessage> messages;
        for (uint32_t i = 0; i <= Below(3); ++i) messages.push_back({Text(), Text()});
        request.prompt = std::move(messages);
    }
    SamplingParams& p = request.sampling;
    p.max_tokens = Integer();
    p.min_tokens = Integer();
    p.temperature = Number();
    p.top_k = Integer();
    p.top_p = Number();
    p.min_p = Number();
    if (Below(2)) p.seed = random_();
    p.n = Integer();
    p.presence_penalty = Number();
    p.frequency_penalty = Number();
    p.repetition_penalty = Number();
    for (const int32_t id : Ids()) {
      if (p.logit_bias.empty() || p.logit_bias.back().first < id) {
        p.logit_bias.emplace_back(id, Number());
      }
    }
    for (uint32_t i = 0; i < Below(4); ++i) p.stop.push_back(Text());
    p.stop_token_ids = Ids();
    p.ignore_eos = Below(2) == 1;
    if (Below(2)) p.logprobs = Integer();
    if (Below(2)) p.prompt_logprobs = Integer();
    p.logprobs_mode = Below(2) ? LogProbsMode::kRaw : LogProbsMode::kProcessed;
    return request;
  }

 private:
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  int64_t Integer() { return static_cast<int64_t>(random_()) >> Below(64); }
  double Number() {
    switch (Below(4)) {
      case 0:
        return 0;
      case 1:
        return static_cast<double>(Integer());
      case 2:
        return std::uniform_real_distribution<double>(-2, 2)(random_);
      default:
        return std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random_),
                          static_cast<int>(Below(600)) - 300);
    }
  }
  std::vector<int32_t> Ids() {
    std::vector<int32_t> ids(Below(5));
    for (int32_t& id : ids) id = static_cast<int32_t>(random_() >> (33 + Below(30)));
    return ids;
  }
  std::string Text() {
    static const std::vector<std::string> kPieces = {"a",
                                                     " ",
                                                     "\n",
                                                     "\"",
                                                     "\\",
                                                     "/",
                                                     std::string(1, '\0'),
                                                     "\x7f",
                                                     "\xc3\xa9",
                                                     "\xe4\xbb\x8a",
                                                     "\xf0\x9f\x98\x80",
                                                     "\xe2\x80\xa8",
                                                     "<|im_end|>",
                                                     "\x1f"};
    std::string text;
    for (uint32_t i = 0; i < Below(8); ++i) {
      text += kPieces[Below(static_cast<uint32_t>(kPieces.size()))];
    }
    return text;
  }

  std::mt19937_64 random_;
};

void ExpectEqual(const Request& a, const Request& b) {
  EXPECT_EQ(a.id, b.id);
  ASSERT_EQ(a.prompt.index(), b.prompt.index());
  if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&a.prompt)) {
    EXPECT_TRUE(std::ranges::equal(*messages, std::get<std::vector<ChatMessage>>(b.prompt),
                                   [](const ChatMessage& x, const ChatMessage& y) {
                                     return x.role == y.role && x.content == y.content;
                                   }));
  } else if (const auto* ids = std::get_if<std::vector<int32_t>>(&a.prompt)) {
    EXPECT_EQ(*ids, std::get<std::vector<int32_t>>(b.prompt));
  } else {
    EXPECT_EQ(std::get<std::string>(a.prompt), std::get<std::string>(b.prompt));
  }
  const SamplingParams &p = a.sampling, &q = b.sampling;
  EXPECT_EQ(p.max_tokens, q.max_tokens);
  EXPECT_EQ(p.min_tokens, q.min_tokens);
  EXPECT_EQ(p.temperature, q.temperature);
  EXPECT_EQ(p.top_k, q.top_k);
  EXPECT_EQ(p.top_p, q.top_p);
  EXPECT_EQ(p.min_p, q.min_p);
  EXPECT_EQ(p.seed, q.seed);
  EXPECT_EQ(p.n, q.n);
  EXPECT_EQ(p.presence_penalty, q.presence_penalty);
  EXPECT_EQ(p.frequency_penalty, q.frequency_penalty);
  EXPECT_EQ(p.repetition_penalty, q.repetition_penalty);
  EXPECT_EQ(p.logit_bias, q.logit_bias);
  EXPECT_EQ(p.stop, q.stop);
  EXPECT_EQ(p.stop_token_ids, q.stop_token_ids);
  EXPECT_EQ(p.ignore_eos, q.ignore_eos);
  EXPECT_EQ(p.logprobs, q.logprobs);
  EXPECT_EQ(p.prompt_logprobs, q.prompt_logprobs);
  EXPECT_EQ(p.logprobs_mode, q.logprobs_mode);
}

TEST(RequestToJson, ComesBackEqual) {
  RandomRequests requests(7);
  for (int i = 0; i < 3000; ++i) {
    const Request request = requests.Next();
    const std::string line = RequestToJson(request);
    ASSERT_EQ(line.find('\n'), std::string::npos) << "one line";
    const ParsedRequest parsed = ParseRequest(line);
    ASSERT_TRUE(parsed.request.ok()) << line << ": " << parsed.request.status();
    ExpectEqual(*parsed.request, request);
    if (HasFailure()) FAIL() << line;
  }
}

// Any damage to a line gives an error or a request, never a crash, and errors stay short.
TEST(ParseRequest, SurvivesDamage) {
  RandomRequests requests(8);
  std::mt19937 random(9);
  for (int i = 0; i < 3000; ++i) {
    std::string line = RequestToJson(requests.Next());
    for (uint32_t j = 0; j <= random() % 3; ++j) {
      line[random() % line.size()] = static_cast<char>(random());
    }
    const ParsedRequest parsed = ParseRequest(line);
    if (!parsed.request.ok()) {
      EXPECT_LT(parsed.request.status().message().size(), 300u);
    }
  }
}

}  // namespace
}  // namespace isobit
