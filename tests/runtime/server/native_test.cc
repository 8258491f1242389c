// /generate, /score, /tokenize, /detokenize, /v1/models, /health and /metrics.

#include "runtime/api/completion_json.h"
#include "runtime/api/reply_format.h"
#include "tests/runtime/server/server_fixture.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::json;

class NativeTest : public ServerTest {
 protected:
  void SetUp() override { StartServer(); }
};

// The answer is the one of `isobit batch`, but for a field more.
TEST_F(NativeTest, GenerateIsBatchOverHttp) {
  const std::vector<int32_t> ids = Tokens(3, 40);
  Request request;
  request.id = "r1";
  request.prompt = ids;
  request.sampling.max_tokens = 10;
  request.sampling.seed = 5;
  request.sampling.n = 2;
  request.sampling.logprobs = 1;
  request.sampling.prompt_logprobs = 0;
  const auto completions = engine_->Generate({request});
  json expected = json::parse(CompletionToJson(*completions[0]));
  expected["system_fingerprint"] = SystemFingerprint("isobit test", engine_->model().digest());
  json body = {{"id", "r1"}, {"prompt_token_ids", ids}, {"max_tokens", 10},    {"seed", 5},
               {"n", 2},     {"logprobs", 1},           {"prompt_logprobs", 0}};
  json answer = Post("/generate", body).Json();
  answer["usage"].erase("cached_tokens");
  expected["usage"].erase("cached_tokens");
  EXPECT_EQ(answer, expected);

  body["stream"] = true;
  std::vector<json> events = Post("/generate", body).Events();
  ASSERT_FALSE(events.empty());
  events.back()["usage"].erase("cached_tokens");
  EXPECT_EQ(events.back(), expected);
  std::vector<json> streamed(2, json::array());
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    streamed[events[i]["index"]].push_back(events[i]["token_id"]);
    EXPECT_EQ(events[i]["logprobs"].size(), 1u);
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(streamed[i], expected["choices"][i]["token_ids"]);
}

// What was drawn token by token has, in one prefill, exactly the same log-probabilities.
TEST_F(NativeTest, ScoreEqualsGenerateExactly) {
  const std::vector<int32_t> prompt = Tokens(7, 30);
  const json generated = Post("/generate", {{"prompt_token_ids", prompt},
                                            {"max_tokens", 60},
                                            {"seed", 1},
                                            {"ignore_eos", true},
                                            {"logprobs", 0}})
                             .Json();
  std::vector<int32_t> all = prompt;
  for (const json& id : generated["choices"][0]["token_ids"]) all.push_back(id);
  const json scored = Post("/score", {{"id", "s"}, {"prompt_token_ids", all}}).Json();
  EXPECT_EQ(scored["id"], "s");
  EXPECT_EQ(scored["prompt_token_ids"], all);
  ASSERT_EQ(scored["prompt_logprobs"].size(), all.size());
  EXPECT_TRUE(scored["prompt_logprobs"][0].is_null());
  for (size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(scored["prompt_logprobs"][prompt.size() + i]["logprob"],
              generated["choices"][0]["logprobs"][i]["logprob"])
        << i;
  }
  EXPECT_EQ(scored["model_digest"], engine_->model().digest().ToHex());
  EXPECT_EQ(Post("/score", {{"prompt_token_ids", all}}).Json()["digest"], scored["digest"]);
  all.back() ^= 1;
  EXPECT_NE(Post("/score", {{"prompt_token_ids", all}}).Json()["digest"], scored["digest"]);
  EXPECT_EQ(Post("/score", {{"prompt", "abc"}, {"prompt_logprobs", 2}})
                .Json()["prompt_logprobs"][1]["top"]
                .size(),
            2u);
}

TEST_F(NativeTest, WhatIsWrongIsNamed) {
  const auto error = [&](const char* path, const json& body) {
    const HttpReply reply = Post(path, body);
    EXPECT_GE(reply.status, 400) << body;
    return reply.Error();
  };
  EXPECT_THAT(error("/generate", {{"prompt", "a"}, {"max_token", 1}}),
              HasSubstr("unknown field \"max_token\""));
  EXPECT_THAT(error("/generate", {{"max_tokens", 1}}), HasSubstr("one of prompt"));
  EXPECT_THAT(error("/generate", {{"prompt", "a"}, {"stream", 1}}), HasSubstr("stream must be"));
  EXPECT_THAT(error("/generate", {{"prompt", "a"}, {"model", "x"}}), HasSubstr("not served here"));
  EXPECT_THAT(error("/generate", {{"prompt", "a"}, {"logprobs", 100}}), HasSubstr("at most 20"));
  EXPECT_THAT(error("/score", {{"prompt", "a"}, {"temperature", 1}}),
              HasSubstr("unknown field \"temperature\""));
  EXPECT_THAT(error("/score", {{"prompt", "a"}, {"stream", true}}), HasSubstr("unknown field"));
  EXPECT_THAT(error("/score", {{"prompt", ""}}), HasSubstr("at least one token"));
  EXPECT_THAT(error("/tokenize", {{"text", "a"}}), HasSubstr("unknown field \"text\""));
  EXPECT_THAT(error("/tokenize", json::object()), HasSubstr("one of prompt and messages"));
  EXPECT_THAT(error("/tokenize", {{"prompt", "a"}, {"model", "x"}}), HasSubstr("not served here"));
  EXPECT_THAT(error("/detokenize", {{"tokens", {1, 267}}}),
              HasSubstr("tokens[1] must be in [0, 267), got 267"));
  EXPECT_THAT(error("/detokenize", json::object()), HasSubstr("tokens is missing"));
}

TEST_F(NativeTest, AnotherModelIsNotFound) {
  const auto expect = [](const HttpReply& reply) {
    EXPECT_EQ(reply.status, 404);
    EXPECT_EQ(reply.Json()["error"]["code"], "model_not_found");
    EXPECT_THAT(reply.Error(), HasSubstr("not served here"));
  };
  for (const char* path : {"/generate", "/score", "/tokenize"}) {
    expect(Post(path, {{"prompt", "a"}, {"model", "x"}}));
  }
  expect(Post("/detokenize", {{"tokens", {1}}, {"model", "x"}}));
  expect(Get("/v1/models/x"));
}

TEST_F(NativeTest, TextToIdsAndBack) {
  const std::string text = "a \u20ac <|im_start|> z";
  const json ids = Post("/tokenize", {{"prompt", text}, {"return_token_strs", true}}).Json();
  EXPECT_EQ(ids["count"], ids["tokens"].size());
  EXPECT_EQ(ids["token_strs"].size(), ids["tokens"].size());
  EXPECT_EQ(ids["max_model_len"], 4096);
  EXPECT_EQ(Post("/detokenize", {{"tokens", ids["tokens"]}}).Json()["prompt"], text);
  const json messages = {{{"role", "user"}, {"content", "hi"}}};
  EXPECT_EQ(Post("/tokenize", {{"messages", messages}}).Json()["tokens"],
            Post("/v1/chat/completions",
                 {{"messages", messages}, {"max_tokens", 1}, {"return_token_ids", true}})
                .Json()["prompt_token_ids"]);
  EXPECT_LT(
      Post("/tokenize", {{"messages", messages}, {"add_generation_prompt", false}}).Json()["count"],
      Post("/tokenize", {{"messages", messages}}).Json()["count"]);
}

TEST_F(NativeTest, TheTokenizerTellsAboutItself) {
  const json info = Get("/tokenizer_info").Json();
  const Tokenizer& tokenizer = engine_->model().tokenizer();
  EXPECT_EQ(info["eos_token"], std::string(tokenizer.Piece(*tokenizer.eos_id())));
  EXPECT_EQ(info["bos_token"].is_null(), !tokenizer.bos_id().has_value());
  EXPECT_EQ(info["add_bos_token"], tokenizer.adds_bos());
  EXPECT_EQ(info["vocab_size"], 267);
  EXPECT_EQ(info["model_max_length"], 4096);
  EXPECT_EQ(info["chat_template"], std::string(*tokenizer.chat_template()));
}

TEST_F(NativeTest, ModelsAndHealth) {
  const json models = Get("/v1/models").Json();
  ASSERT_EQ(models["data"].size(), 1u);
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["model_digest"], engine_->model().digest().ToHex());
  EXPECT_EQ(Get("/v1/models/tiny").Json(), models["data"][0]);
  EXPECT_EQ(Get("/v1/models/t%69ny").Json(), models["data"][0]);
  EXPECT_EQ(Get("/v1/models/other").status, 404);
  EXPECT_EQ(Get("/health").Json()["status"], "ok");
}

TEST_F(NativeTest, MetricsCount) {
  Post("/v1/completions", {{"prompt", "abc"}, {"max_tokens", 7}, {"ignore_eos", true}});
  Post("/v1/completions", {{"prompt", "abc"}, {"max_tokens", -1}});
  ASSERT_TRUE(Eventually([&] {
    return Get("/metrics").body.find("path=\"/v1/completions\",status=\"400\"} 1") !=
           std::string::npos;
  }));
  const HttpReply reply = Get("/metrics");
  EXPECT_THAT(reply.headers.at("content-type"), HasSubstr("text/plain; version=0.0.4"));
  for (const char* line :
       {"isobit_http_responses_total{path=\"/v1/completions\",status=\"200\"} 1\n",
        "isobit_generated_tokens_total 7\n", "isobit_prompt_tokens_total 3\n",
        "isobit_generation_tokens_count 1\n", "isobit_generation_tokens_sum 7\n",
        "isobit_time_to_first_token_seconds_count 1\n", "isobit_sequences_running 0\n",
        "isobit_connections 1\n", "isobit_model_info{contract=\"1\",model_digest=\""}) {
    EXPECT_THAT(reply.body, HasSubstr(line));
  }
}

}  // namespace
}  // namespace isobit
