#include "runtime/text/chat_template.h"

#include <ctime>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/model/gguf.h"
#include "runtime/text/tokenizer.h"
#include "tests/model_path.h"

namespace isobit {
namespace {

using ::testing::HasSubstr;

// The template in the model's file, on conversations that Hugging Face rendered.
TEST(ChatTemplateTest, SmolLm2RendersAsHuggingFace) {
  const auto file = GgufFile::Open(TestModelPath());
  ASSERT_TRUE(file.ok()) << file.status() << "\nThis test needs the model: run the set-up script, "
                         << "or set ISOBIT_TEST_MODEL.";
  const auto tokenizer = Tokenizer::FromGguf(**file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ASSERT_TRUE((*tokenizer)->chat_template().has_value());
  const auto parsed = ChatTemplate::Parse(*(*tokenizer)->chat_template());
  ASSERT_TRUE(parsed.ok()) << parsed.status();

  std::ifstream in(ISOBIT_SOURCE_DIR "/golden/text/chat.json");
  const auto golden = nlohmann::json::parse(in);
  ASSERT_EQ(golden.size(), 4u);
  for (const auto& row : golden) {
    std::vector<ChatMessage> messages;
    for (const auto& message : row.at("messages")) {
      messages.push_back(
          {message.at("role").get<std::string>(), message.at("content").get<std::string>()});
    }
    ChatTemplateOptions options;
    options.add_generation_prompt = row.at("add_generation_prompt").get<bool>();
    const auto text = parsed->Apply(messages, options);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, row.at("text").get<std::string>());
    // Its special tokens are tokens, not spelled out.
    const auto ids = (*tokenizer)->Encode(*text);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ((*ids)[0], (*tokenizer)->FindSpecial("<|im_start|>"));
    EXPECT_EQ((*tokenizer)->Decode(*ids, /*skip_special=*/false), *text);
  }
}

TEST(ChatTemplateTest, VariablesAreThoseOfHuggingFace) {
  const std::vector<ChatMessage> messages = {{"user", "hi"}};
  ChatTemplateOptions options;
  options.add_generation_prompt = false;
  options.bos_token = "<s>";
  const auto text = ApplyChatTemplate(
      "{{ bos_token }}{{ eos_token is defined }} {{ tools is none }} {{ documents }} "
      "{{ messages|length }} {{ messages[0].role }} {{ messages[0]['content'] }} "
      "{{ add_generation_prompt }} {{ messages[0].name is defined }}",
      messages, options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "<s>False True None 1 user hi False False");
}

TEST(ChatTemplateTest, ErrorsReachTheCaller) {
  const auto include = ChatTemplate::Parse("{% include 'x' %}");
  EXPECT_EQ(include.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(include.status().message()),
              HasSubstr("chat template uses 'include', which is not supported"));
  const std::vector<ChatMessage> messages = {{"robot", "hi"}};
  const auto raised = ApplyChatTemplate(
      "{% if messages[0].role != 'user' %}{{ raise_exception('Unknown role: ' + messages[0].role) "
      "}}"
      "{% endif %}",
      messages, {});
  EXPECT_EQ(raised.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(raised.status().message()), HasSubstr("Unknown role: robot"));
}

TEST(ChatTemplateTest, JsonOfTheCallerReachesTheTemplate) {
  const std::vector<ChatMessage> messages = {
      {"assistant", "text", R"({"tool_calls": [{"x": 1.50}], "content": null})"}};
  ChatTemplateOptions options;
  options.tools = R"([{"name": "f"}])";
  options.kwargs = R"({"enable_thinking": false, "bos_token": "<b>"})";
  options.bos_token = "<s>";
  options.now.emplace().tm_year = 126;
  options.now->tm_mon = 10;
  options.now->tm_mday = 30;
  const auto text = ApplyChatTemplate(
      "{{ messages|tojson }} {{ tools[0].name }} {{ enable_thinking }} {{ bos_token }} "
      "{{ strftime_now('%d %b %Y') }}",
      messages, options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text,
            R"([{"role": "assistant", "content": null, "tool_calls": [{"x": 1.5}]}] f False )"
            "<b> 30 Nov 2026");
  options.now.reset();
  EXPECT_EQ(ApplyChatTemplate("{{ strftime_now('%Y')|length }}", messages, options).value(), "4");

  const auto expect = [&](const ChatMessage& message, const ChatTemplateOptions& given,
                          const char* part) {
    const auto got = ApplyChatTemplate("x", std::vector<ChatMessage>{message}, given);
    EXPECT_EQ(got.status().code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_THAT(std::string(got.status().message()), HasSubstr(part));
  };
  expect({"user", "", "{"}, {}, "a message's fields: not valid JSON");
  expect({"user", "", "[]"}, {}, "a message's fields is no JSON object");
  expect({"user", "", "{\"a\":" + std::string(1000, '[')}, {}, "nested deeper than 64");
  expect({"user", "", "{\"a\":18446744073709551615}"}, {}, "larger than 2^63-1");
  expect({"user", ""}, {.tools = "{}"}, "tools is no JSON list");
  expect({"user", ""}, {.kwargs = "{\"messages\":[]}"},
         "chat_template_kwargs can't set 'messages'");
}

// golden/text/make_chat_templates.py: every template of llama.cpp's collection on conversations
// with tools, thought and parts.
TEST(ChatTemplateTest, PublishedTemplatesRenderAsInHuggingFace) {
  std::ifstream in(ISOBIT_SOURCE_DIR "/golden/text/chat_templates.json");
  const auto golden = nlohmann::ordered_json::parse(in);
  std::map<std::string, int> kinds;
  ASSERT_EQ(golden.at("results").size(), 70u);
  for (const auto& [name, results] : golden.at("results").items()) {
    std::ifstream file(TestVocabularyFolder() + "/templates/" + name, std::ios::binary);
    ASSERT_TRUE(file.good()) << name << ": run the set-up script, or set ISOBIT_TEST_VOCAB_DIR";
    const std::string source{std::istreambuf_iterator<char>(file), {}};
    for (const auto& [title, wanted] : results.items()) {
      const auto& conversation = golden.at("conversations").at(title);
      std::vector<ChatMessage> messages;
      for (const auto& given : conversation.at("messages")) {
        ChatMessage& message = messages.emplace_back();
        message.role = given.at("role").get<std::string>();
        auto fields = given;
        fields.erase("role");
        message.fields = fields.dump();
      }
      ChatTemplateOptions options;
      options.add_generation_prompt = conversation.value("add_generation_prompt", true);
      options.bos_token = "<s>";
      options.eos_token = "</s>";
      if (conversation.contains("tools")) options.tools = conversation.at("tools").dump();
      if (conversation.contains("kwargs")) options.kwargs = conversation.at("kwargs").dump();
      std::tm now = {};
      now.tm_year = 126, now.tm_mon = 10, now.tm_mday = 30, now.tm_wday = 1, now.tm_yday = 333;
      now.tm_hour = 12, now.tm_min = 34, now.tm_sec = 56;
      options.now = now;
      const auto got = ApplyChatTemplate(source, messages, options);
      const std::string where = name + ", " + title;
      if (wanted.contains("text")) {
        ++kinds["text"];
        EXPECT_TRUE(got.ok()) << where << ": " << got.status();
        if (got.ok()) {
          EXPECT_EQ(*got, wanted.at("text").get<std::string>()) << where;
        }
      } else if (wanted.contains("raised")) {
        ++kinds["raised"];
        EXPECT_EQ(got.status(), absl::InvalidArgumentError("chat template: " +
                                                           wanted.at("raised").get<std::string>()))
            << where;
      } else {
        ++kinds["error"];
        EXPECT_FALSE(got.ok()) << where << " gave " << got.value_or("") << "\nwanted " << wanted;
        EXPECT_NE(got.status().code(), absl::StatusCode::kUnimplemented) << where << got.status();
      }
    }
  }
  EXPECT_EQ(kinds["text"], 917);
  EXPECT_EQ(kinds["raised"], 42);
  EXPECT_EQ(kinds["error"], 161);
}

TEST(ChatTemplateTest, MovesAndAppliesAgain) {
  auto first = ChatTemplate::Parse("{% for m in messages %}[{{ m.content }}]{% endfor %}");
  ASSERT_TRUE(first.ok());
  const ChatTemplate moved = *std::move(first);
  const std::vector<ChatMessage> two = {{"user", "a"}, {"user", "b"}};
  EXPECT_EQ(moved.Apply(two, {}).value(), "[a][b]");
  EXPECT_EQ(moved.Apply({}, {}).value(), "");
  EXPECT_EQ(moved.Apply(two, {}).value(), "[a][b]");
}

}  // namespace
}  // namespace isobit
