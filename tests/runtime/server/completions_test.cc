// /v1/completions and /v1/chat/completions: what is answered, at once and as a stream.

#include <cmath>
#include <set>

#include "runtime/api/reply_format.h"
#include "tests/runtime/server/server_fixture.h"
#include "tests/runtime/server/streamed_answer.h"

namespace isobit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
using json = nlohmann::json;

class CompletionsTest : public ServerTest {
 protected:
  void SetUp() override { StartServer(); }

  json Complete(const json& body) {
    const HttpReply reply = Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.Json();
  }
  json Chat(const json& body) {
    const HttpReply reply = Post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.Json();
  }
  // The same from the engine.
  Completion FromEngine(Request request) {
    std::vector<Request> requests;
    requests.push_back(std::move(request));
    auto completions = engine_->Generate(std::move(requests));
    EXPECT_TRUE(completions[0].ok()) << completions[0].status();
    return *std::move(completions[0]);
  }
  std::string Fingerprint() { return SystemFingerprint("isobit test", engine_->model().digest()); }
};

const json kSampled = {
    {"prompt", "Once upon"}, {"max_tokens", 20}, {"temperature", 0.8}, {"seed", 5},
    {"top_k", 30},           {"top_p", 0.9},     {"min_p", 0.01},      {"ignore_eos", true}};

Request SampledRequest() {
  Request request;
  request.prompt = std::string("Once upon");
  request.sampling.max_tokens = 20;
  request.sampling.temperature = 0.8;
  request.sampling.top_k = 30;
  request.sampling.top_p = 0.9;
  request.sampling.min_p = 0.01;
  request.sampling.seed = 5;
  request.sampling.ignore_eos = true;
  return request;
}

TEST_F(CompletionsTest, AnswersWhatTheEngineSays) {
  const Completion expected = FromEngine(SampledRequest());
  const json answer = Complete(kSampled);
  EXPECT_THAT(answer["id"].get<std::string>(), StartsWith("cmpl-"));
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "tiny");
  EXPECT_EQ(answer["system_fingerprint"], Fingerprint());
  EXPECT_EQ(answer["seed"], 5);
  EXPECT_EQ(answer["digest"], expected.digest.ToHex());
  ASSERT_EQ(answer["choices"].size(), 1u);
  EXPECT_EQ(answer["choices"][0]["index"], 0);
  EXPECT_EQ(answer["choices"][0]["text"], expected.choices[0].text);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["choices"][0]["digest"], expected.choices[0].digest.ToHex());
  EXPECT_TRUE(answer["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(answer["usage"]["prompt_tokens"], expected.prompt_token_ids.size());
  EXPECT_EQ(answer["usage"]["completion_tokens"], 20);
  EXPECT_EQ(answer["usage"]["total_tokens"], expected.prompt_token_ids.size() + 20);
}

TEST_F(CompletionsTest, AStreamAddsUpToTheSame) {
  const json whole = Complete(kSampled);
  json body = kSampled;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const HttpReply reply = Post("/v1/completions", body);
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.headers.at("content-type"), StartsWith("text/event-stream"));
  const std::vector<json> events = reply.Events();
  ASSERT_GE(events.size(), 3u);
  std::string text;
  for (const json& event : events) {
    EXPECT_EQ(event["id"], events[0]["id"]);
    EXPECT_EQ(event["object"], "text_completion");
    EXPECT_EQ(event["system_fingerprint"], Fingerprint());
    EXPECT_TRUE(event.contains("usage"));
    for (const json& choice : event["choices"]) text += choice["text"];
  }
  EXPECT_EQ(whole["choices"][0]["text"], text);
  const json& finish = events[events.size() - 2];
  EXPECT_EQ(finish["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(finish["choices"][0]["digest"], whole["choices"][0]["digest"]);
  EXPECT_EQ(finish["digest"], whole["digest"]);
  EXPECT_EQ(finish["seed"], 5);
  EXPECT_TRUE(finish["usage"].is_null());
  const json& usage = events.back();
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 20);
  EXPECT_EQ(usage["digest"], whole["digest"]);
}

// The tiny model writes bytes at random, many of them parts of characters.
TEST_F(CompletionsTest, AStreamNeverSplitsACharacter) {
  int multibyte = 0;
  for (int seed = 0; seed < 5; ++seed) {
    json body = {{"prompt", "\u00e4\u20ac"},
                 {"max_tokens", 200},
                 {"temperature", 2},
                 {"seed", seed},
                 {"ignore_eos", true}};
    const std::string whole = Complete(body)["choices"][0]["text"];
    body["stream"] = true;
    // Events are read as strict JSON, so half a character in one would fail.
    EXPECT_THAT(ReadStreamedAnswer(Post("/v1/completions", body)).texts,
                ElementsAre(Pair(0, whole)))
        << seed;
    for (const char c : whole) multibyte += static_cast<unsigned char>(c) >= 0xc0;
  }
  EXPECT_GT(multibyte, 20);
}

TEST_F(CompletionsTest, LogProbsOfTokensAndAlternatives) {
  Request request = SampledRequest();
  request.sampling.logprobs = 2;
  const Completion expected = FromEngine(request);
  json body = kSampled;
  body["logprobs"] = 2;
  const json logprobs = Complete(body)["choices"][0]["logprobs"];
  const auto& positions = *expected.choices[0].logprobs;
  ASSERT_EQ(logprobs["tokens"].size(), positions.size());
  int64_t last_offset = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    EXPECT_EQ(logprobs["token_logprobs"][i].get<float>(), positions[i].logprob);
    const json& top = logprobs["top_logprobs"][i];
    EXPECT_EQ(top[logprobs["tokens"][i].get<std::string>()].get<float>(), positions[i].logprob);
    EXPECT_GE(top.size(), 2u);
    EXPECT_LE(top.size(), 3u);
    EXPECT_GE(logprobs["text_offset"][i], last_offset);
    last_offset = logprobs["text_offset"][i];
  }
  body["return_tokens_as_token_ids"] = true;
  EXPECT_EQ(Complete(body)["choices"][0]["logprobs"]["tokens"][0],
            "token_id:" + std::to_string(positions[0].token_id));
  // Streamed, the same ones in pieces.
  body.erase("return_tokens_as_token_ids");
  body["stream"] = true;
  json tokens = json::array(), values = json::array(), offsets = json::array();
  for (const json& event : Post("/v1/completions", body).Events()) {
    const json& piece = event["choices"][0]["logprobs"];
    if (piece.is_null()) continue;
    tokens.insert(tokens.end(), piece["tokens"].begin(), piece["tokens"].end());
    values.insert(values.end(), piece["token_logprobs"].begin(), piece["token_logprobs"].end());
    offsets.insert(offsets.end(), piece["text_offset"].begin(), piece["text_offset"].end());
  }
  EXPECT_EQ(tokens, logprobs["tokens"]);
  EXPECT_EQ(values, logprobs["token_logprobs"]);
  EXPECT_EQ(offsets, logprobs["text_offset"]);
}

// What an evaluation harness asks: the prompt's own log-probabilities.
TEST_F(CompletionsTest, EchoScoresThePrompt) {
  const std::string prompt = "the quick brown fox";
  Request request;
  request.prompt = prompt;
  request.sampling.max_tokens = 1;
  request.sampling.temperature = 0;
  request.sampling.logprobs = 1;
  request.sampling.prompt_logprobs = 1;
  const Completion expected = FromEngine(request);
  const json answer = Complete(
      {{"prompt", prompt}, {"max_tokens", 1}, {"temperature", 0}, {"logprobs", 1}, {"echo", true}});
  const json& choice = answer["choices"][0];
  EXPECT_EQ(choice["text"], prompt + expected.choices[0].text);
  const json& logprobs = choice["logprobs"];
  const size_t n = expected.prompt_token_ids.size();
  ASSERT_EQ(logprobs["tokens"].size(), n + 1);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    text += logprobs["tokens"][i];
    if (i == 0) continue;
    EXPECT_EQ(logprobs["token_logprobs"][i].get<float>(), (*expected.prompt_logprobs)[i].logprob);
  }
  EXPECT_EQ(text, prompt);
  // By ids, with no token to come.
  const json by_ids = Complete(
      {{"prompt", expected.prompt_token_ids}, {"max_tokens", 0}, {"logprobs", 1}, {"echo", true}});
  EXPECT_EQ(by_ids["choices"][0]["text"], prompt);
  for (size_t i = 0; i < n; ++i) {
    EXPECT_EQ(by_ids["choices"][0]["logprobs"]["token_logprobs"][i], logprobs["token_logprobs"][i]);
  }
  // Streamed, the prompt stands first.
  const HttpReply streamed = Post("/v1/completions", {{"prompt", prompt},
                                                      {"max_tokens", 1},
                                                      {"temperature", 0},
                                                      {"echo", true},
                                                      {"stream", true}});
  EXPECT_THAT(ReadStreamedAnswer(streamed).texts,
              ElementsAre(Pair(0, choice["text"].get<std::string>())));
}

TEST_F(CompletionsTest, PromptLogProbsAsVllmHasThem) {
  const json answer = Complete({{"prompt", "abcdef"},
                                {"max_tokens", 1},
                                {"prompt_logprobs", 1},
                                {"return_token_ids", true}});
  const json& choice = answer["choices"][0];
  const json& ids = choice["prompt_token_ids"];
  ASSERT_EQ(choice["prompt_logprobs"].size(), ids.size());
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  for (size_t i = 1; i < ids.size(); ++i) {
    EXPECT_TRUE(choice["prompt_logprobs"][i].contains(std::to_string(ids[i].get<int>())));
  }
  EXPECT_EQ(choice["token_ids"].size(), 1u);
}

TEST_F(CompletionsTest, ManyPromptsAndManyChoices) {
  const json answer = Complete(
      {{"prompt", {"one", "two"}}, {"n", 3}, {"max_tokens", 5}, {"seed", 9}, {"ignore_eos", true}});
  ASSERT_EQ(answer["choices"].size(), 6u);
  std::set<std::string> texts;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    texts.insert(answer["choices"][i]["digest"]);
  }
  EXPECT_EQ(texts.size(), 6u);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 30);
  const json alone =
      Complete({{"prompt", "two"}, {"n", 3}, {"max_tokens", 5}, {"seed", 9}, {"ignore_eos", true}});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answer["choices"][3 + i]["digest"], alone["choices"][i]["digest"]);
  }
  // Streamed, each choice by its index.
  const StreamedAnswer streamed =
      ReadStreamedAnswer(Post("/v1/completions", {{"prompt", {"one", "two"}},
                                                  {"n", 3},
                                                  {"max_tokens", 5},
                                                  {"seed", 9},
                                                  {"ignore_eos", true},
                                                  {"stream", true}}));
  ASSERT_EQ(streamed.texts.size(), 6u);
  ASSERT_EQ(streamed.digests.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    const json& choice = answer["choices"][static_cast<size_t>(i)];
    EXPECT_EQ(choice["text"], streamed.texts.at(i));
    EXPECT_EQ(choice["digest"], streamed.digests.at(i));
  }
  const json by_ids = Complete({{"prompt", {{1, 2, 3}, {4, 5}}}, {"max_tokens", 2}, {"seed", 1}});
  EXPECT_EQ(by_ids["choices"].size(), 2u);
  EXPECT_EQ(by_ids["usage"]["prompt_tokens"], 5);
}

TEST_F(CompletionsTest, ADrawnSeedIsReturnedAndRepeats) {
  for (const json& prompt : {json("x"), json{"x", "y"}}) {
    json body = {{"prompt", prompt}, {"max_tokens", 12}, {"ignore_eos", true}};
    const json first = Complete(body);
    ASSERT_TRUE(first["seed"].is_number_unsigned());
    EXPECT_NE(Complete(body)["digest"], first["digest"]);
    body["seed"] = first["seed"];
    EXPECT_EQ(Complete(body)["digest"], first["digest"]);
  }
  EXPECT_TRUE(Complete({{"prompt", "x"}, {"temperature", 0}})["seed"].is_null());
}

TEST_F(CompletionsTest, StopsBiasesAndPenaltiesReachTheEngine) {
  Request request;
  request.prompt = std::string("abc");
  request.sampling.max_tokens = 30;
  request.sampling.min_tokens = 2;
  request.sampling.temperature = 0.7;
  request.sampling.seed = 3;
  request.sampling.presence_penalty = 0.5;
  request.sampling.frequency_penalty = -0.25;
  request.sampling.repetition_penalty = 1.25;
  request.sampling.logit_bias = {{50, -5}, {70, 3.5}};
  request.sampling.stop = {"q", "ab"};
  request.sampling.stop_token_ids = {100, 120};
  request.sampling.logprobs_mode = LogProbsMode::kProcessed;
  const Completion expected = FromEngine(request);
  json body = {{"prompt", "abc"},
               {"max_tokens", 30},
               {"min_tokens", 2},
               {"temperature", 0.7},
               {"seed", 3},
               {"presence_penalty", 0.5},
               {"frequency_penalty", -0.25},
               {"repetition_penalty", 1.25},
               {"logit_bias", {{"50", -5}, {"70", 3.5}}},
               {"stop", {"q", "ab"}},
               {"stop_token_ids", {100, 120}},
               {"logprobs_mode", "processed"},
               {"user", "somebody"},
               {"best_of", 1},
               {"response_format", {{"type", "text"}}}};
  EXPECT_EQ(Complete(body)["digest"], expected.digest.ToHex());
}

// ---- Chat

const json kMessages = {{{"role", "system"}, {"content", "Be brief."}},
                        {{"role", "user"}, {"content", "Hello"}}};

TEST_F(CompletionsTest, ChatAnswersWhatTheEngineSays) {
  Request request;
  request.prompt = std::vector<ChatMessage>{{"system", "Be brief."}, {"user", "Hello"}};
  request.sampling.max_tokens = 9;
  request.sampling.seed = 4;
  request.sampling.n = 2;
  request.sampling.logprobs = 1;
  const Completion expected = FromEngine(request);
  json body = {{"messages", kMessages},
               {"max_completion_tokens", 9},
               {"seed", 4},
               {"n", 2},
               {"logprobs", true},
               {"top_logprobs", 1},
               {"return_token_ids", true}};
  const json answer = Chat(body);
  EXPECT_THAT(answer["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["digest"], expected.digest.ToHex());
  EXPECT_EQ(answer["prompt_token_ids"], expected.prompt_token_ids);
  ASSERT_EQ(answer["choices"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const json& choice = answer["choices"][i];
    EXPECT_EQ(choice["message"]["role"], "assistant");
    EXPECT_EQ(choice["message"]["content"], expected.choices[i].text);
    EXPECT_EQ(choice["token_ids"], expected.choices[i].token_ids);
    const json& content = choice["logprobs"]["content"];
    ASSERT_EQ(content.size(), expected.choices[i].token_ids.size());
    for (size_t t = 0; t < content.size(); ++t) {
      EXPECT_EQ(content[t]["logprob"].get<float>(), (*expected.choices[i].logprobs)[t].logprob);
      EXPECT_EQ(content[t]["top_logprobs"].size(), 1u);
      const auto piece = engine_->model().tokenizer().Piece(expected.choices[i].token_ids[t]);
      EXPECT_EQ(content[t]["bytes"].size(), piece.size());
    }
  }
  body["stream"] = true;
  std::vector<std::string> texts(2), roles(2), digests(2);
  std::vector<json> logprobs(2, json::array());
  for (const json& event : Post("/v1/chat/completions", body).Events()) {
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    const json& choice = event["choices"][0];
    const size_t index = choice["index"];
    const json& delta = choice["delta"];
    if (delta.contains("role")) roles[index] += delta["role"];
    if (delta.contains("content")) texts[index] += delta["content"];
    if (choice.contains("digest")) digests[index] = choice["digest"];
    if (choice["logprobs"].is_null()) continue;
    for (const json& token : choice["logprobs"]["content"]) logprobs[index].push_back(token);
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(roles[i], "assistant");
    EXPECT_EQ(texts[i], expected.choices[i].text);
    EXPECT_EQ(digests[i], expected.choices[i].digest.ToHex());
    EXPECT_EQ(logprobs[i], answer["choices"][i]["logprobs"]["content"]);
  }
}

TEST_F(CompletionsTest, AConversationMayGoOnToTheEnd) {
  Request request;
  request.prompt = std::vector<ChatMessage>{{"user", "Hello"}};
  request.sampling.seed = 1;
  request.sampling.max_tokens = engine_->options().max_model_len;
  EXPECT_EQ(Chat({{"messages", {{{"role", "user"}, {"content", "Hello"}}}}, {"seed", 1}})["digest"],
            FromEngine(request).digest.ToHex());
}

// ---- What is refused

struct Refused {
  json change;
  std::string message;
};

TEST_F(CompletionsTest, WhatIsUnknownOrOutOfRangeIsNamed) {
  for (const auto& [change, message] : std::vector<Refused>{
           {{{"max_token", 5}}, "unknown field \"max_token\""},
           {{{"suffix", "x"}}, "unknown field \"suffix\""},
           {{{"top_logprobs", 5}}, "unknown field \"top_logprobs\""},
           {{{"temperature", -1}}, "temperature must be >= 0"},
           {{{"temperature", "hot"}}, "temperature must be a number"},
           {{{"n", 0}}, "n must be in"},
           {{{"n", -1}}, "n must be in"},
           {{{"n", int64_t{1} << 62}, {"prompt", {"a", "b", "c"}}}, "n must be in"},
           {{{"seed", -1}}, "seed must be an integer"},
           {{{"best_of", 3}}, "best_of must be n"},
           {{{"logprobs", 21}}, "logprobs must be at most 20"},
           {{{"prompt_logprobs", 21}}, "prompt_logprobs must be at most 20"},
           {{{"stop", std::vector<std::string>(65, "x")}}, "the number of stop texts"},
           {{{"stop_token_ids", std::vector<int>(65, 1)}}, "the number of stop_token_ids"},
           {{{"prompt", json::array()}}, "prompt must be a text, token ids, or an array"},
           {{{"prompt", 5}}, "prompt must be a text"},
           {{{"prompt", {"a", 5}}}, "prompt[1] must be a text or token ids"},
           {{{"prompt", {1, "a"}}}, "prompt[1] must be a token id"},
           {{{"prompt", {100000}}}, "must be in [0, 267), got 100000"},
           {{{"prompt", std::vector<int>(5000, 1)}}, "prompt has 5000 tokens, the limit is"},
           {{{"prompt", std::vector<std::string>(5000, "x")}}, "prompts times n must be <="},
           {{{"stream_options", {{"include_usage", true}}}}, "stream_options needs stream"},
           {{{"stream_options", {{"other", true}}}}, "unknown field \"stream_options.other\""},
           {{{"stream", true}, {"prompt_logprobs", 1}}, "not supported with stream"},
           {{{"response_format", {{"type", "json_object"}}}}, "response_format of type"},
           {{{"response_format", {{"type", "json_schema"}}}}, "response_format of type"},
           {{{"logit_bias", {{"x", 1}}}}, "logit_bias"},
       }) {
    json body = {{"prompt", "a"}, {"max_tokens", 1}};
    body.update(change);
    const HttpReply reply = Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << change;
    EXPECT_THAT(reply.Error(), HasSubstr(message)) << change;
    EXPECT_EQ(reply.Json()["error"]["type"], "invalid_request_error");
  }
  for (const auto& [change, message] : std::vector<Refused>{
           {{{"echo", true}}, "unknown field \"echo\""},
           {{{"tool_choice", "auto"}}, "unknown field \"tool_choice\""},
           {{{"tools", 5}}, "tools must be an array of objects"},
           {{{"logprobs", 5}}, "logprobs must be true or false"},
           {{{"top_logprobs", 5}}, "top_logprobs needs logprobs"},
           {{{"messages", json::array()}}, "messages must be an array of at least one"},
           {{{"max_tokens", 5}, {"max_completion_tokens", 5}}, "only one of them"},
           {{{"response_format", {{"type", "json_object"}}}}, "response_format of type"},
       }) {
    json body = {{"messages", kMessages}};
    body.update(change);
    const HttpReply reply = Post("/v1/chat/completions", body);
    EXPECT_EQ(reply.status, 400) << change;
    EXPECT_THAT(reply.Error(), HasSubstr(message)) << change;
  }
  EXPECT_THAT(Post("/v1/completions", {{"max_tokens", 1}}).Error(), HasSubstr("prompt is missing"));
  EXPECT_THAT(Post("/v1/completions", json::array()).Error(), HasSubstr("must be a JSON object"));
  EXPECT_THAT(Ask(port_, "POST", "/v1/completions", "{\"prompt\":").Error(),
              HasSubstr("not valid JSON"));
  const HttpReply other = Post("/v1/completions", {{"model", "other"}, {"prompt", "x"}});
  EXPECT_EQ(other.status, 404);
  EXPECT_THAT(other.Error(), HasSubstr("model \"other\" is not served here, \"tiny\" is"));
  EXPECT_EQ(Complete({{"model", "tiny"}, {"prompt", "x"}})["model"], "tiny");
  EXPECT_TRUE(EngineBecomesIdle());
}

// One bad prompt among good ones: one error, and nothing is left running.
TEST_F(CompletionsTest, AllPromptsOrNone) {
  const HttpReply reply =
      Post("/v1/completions", {{"prompt", {{1, 2}, {3, 4}, {100000}}}, {"max_tokens", 2000}});
  EXPECT_EQ(reply.status, 400);
  EXPECT_TRUE(EngineBecomesIdle());
}

}  // namespace
}  // namespace isobit
