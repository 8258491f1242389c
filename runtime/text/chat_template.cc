#include "runtime/text/chat_template.h"

#include <utility>

#include "runtime/text/jinja/evaluator.h"
#include "runtime/text/jinja/parser.h"

namespace isobit {

struct ChatTemplate::Impl {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  absl::StatusOr<jinja::Block> block = jinja::Parse(source);
  if (!block.ok()) return block.status();
  auto impl = std::make_unique<Impl>();
  impl->block = *std::move(block);
  return ChatTemplate(std::move(impl));
}

absl::StatusOr<std::string> ChatTemplate::Apply(std::span<const ChatMessage> messages,
                                                const ChatTemplateOptions& options) const {
  jinja::List list;
  for (const ChatMessage& message : messages) {
    jinja::Map map;
    map.entries = {{"role", jinja::Value(message.role)},
                   {"content", jinja::Value(message.content)}};
    list.emplace_back(std::move(map));
  }
  jinja::Map variables;
  variables.entries = {{"messages", jinja::Value(std::move(list))},
                       {"add_generation_prompt", jinja::Value(options.add_generation_prompt)},
                       // Always there in Hugging Face's environment.
                       {"tools", jinja::Value()},
                       {"documents", jinja::Value()}};
  if (!options.bos_token.empty()) variables.entries.emplace_back("bos_token", options.bos_token);
  if (!options.eos_token.empty()) variables.entries.emplace_back("eos_token", options.eos_token);
  return jinja::Render(impl_->block, variables);
}

absl::StatusOr<std::string> ApplyChatTemplate(std::string_view source,
                                              std::span<const ChatMessage> messages,
                                              const ChatTemplateOptions& options) {
  absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->Apply(messages, options);
}

}  // namespace isobit
