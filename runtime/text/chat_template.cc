#include "runtime/text/chat_template.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/jinja/evaluator.h"
#include "runtime/text/jinja/json_value.h"
#include "runtime/text/jinja/parser.h"

namespace isobit {
namespace {

// Names that the caller of a template gives by other means.
constexpr std::string_view kTaken[] = {"messages", "tools", "add_generation_prompt"};

absl::StatusOr<jinja::Map> ObjectOf(std::string_view json, std::string_view what) {
  if (json.empty()) return jinja::Map();
  absl::StatusOr<jinja::Value> value = jinja::FromJson(json);
  if (!value.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(Absl(what), ": ", value.status().message()));
  }
  if (value->map() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(Absl(what), " is no JSON object"));
  }
  return *value->map();
}

absl::StatusOr<jinja::Value> MessageValue(const ChatMessage& message) {
  absl::StatusOr<jinja::Map> more = ObjectOf(message.fields, "a message's fields");
  if (!more.ok()) return more.status();
  jinja::Map map;
  map.entries = {{"role", jinja::Value(message.role)}, {"content", jinja::Value(message.content)}};
  for (auto& [name, value] : more->entries) map.Set(name, std::move(value));
  return jinja::Value(std::move(map));
}

absl::StatusOr<jinja::Value> ToolsValue(const std::string& tools) {
  if (tools.empty()) return jinja::Value();
  absl::StatusOr<jinja::Value> value = jinja::FromJson(tools);
  if (!value.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("tools: ", value.status().message()));
  }
  if (value->list() == nullptr) return absl::InvalidArgumentError("tools is no JSON list");
  return value;
}

std::tm LocalTime() {
  const std::time_t seconds = std::time(nullptr);
  std::tm now = {};
  localtime_r(&seconds, &now);
  return now;
}

}  // namespace

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
    absl::StatusOr<jinja::Value> value = MessageValue(message);
    if (!value.ok()) return value.status();
    list.push_back(*std::move(value));
  }
  absl::StatusOr<jinja::Value> tools = ToolsValue(options.tools);
  if (!tools.ok()) return tools.status();
  absl::StatusOr<jinja::Map> variables = ObjectOf(options.kwargs, "chat_template_kwargs");
  if (!variables.ok()) return variables.status();
  for (const auto& [name, value] : variables->entries) {
    const std::string& text = *name.text();
    if (std::find(std::begin(kTaken), std::end(kTaken), text) != std::end(kTaken)) {
      return absl::InvalidArgumentError(
          absl::StrCat("chat_template_kwargs can't set '", text, "'"));
    }
  }
  // Kwargs, of which there may be many, come before what is there without them.
  const auto provide = [&variables](const char* name, const jinja::Value& value) {
    if (variables->Find(std::string_view(name)) == nullptr) variables->Set(name, value);
  };
  provide("messages", jinja::Value(std::move(list)));
  provide("add_generation_prompt", jinja::Value(options.add_generation_prompt));
  // Always there in Hugging Face's environment.
  provide("tools", *tools);
  provide("documents", jinja::Value());
  if (!options.bos_token.empty()) provide("bos_token", jinja::Value(options.bos_token));
  if (!options.eos_token.empty()) provide("eos_token", jinja::Value(options.eos_token));
  return jinja::Render(impl_->block, *variables, {}, options.now ? *options.now : LocalTime());
}

absl::StatusOr<std::string> ApplyChatTemplate(std::string_view source,
                                              std::span<const ChatMessage> messages,
                                              const ChatTemplateOptions& options) {
  absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->Apply(messages, options);
}

}  // namespace isobit
