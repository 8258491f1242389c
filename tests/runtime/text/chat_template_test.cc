#include "runtime/text/chat_template.h"

#include <fstream>
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
  const auto macro = ChatTemplate::Parse("{% macro x() %}");
  EXPECT_EQ(macro.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(macro.status().message()),
              HasSubstr("chat template uses 'macro', which is not supported"));
  const std::vector<ChatMessage> messages = {{"robot", "hi"}};
  const auto raised = ApplyChatTemplate(
      "{% if messages[0].role != 'user' %}{{ raise_exception('Unknown role: ' + messages[0].role) "
      "}}"
      "{% endif %}",
      messages, {});
  EXPECT_EQ(raised.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(raised.status().message()), HasSubstr("Unknown role: robot"));
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
