#ifndef ISOBIT_RUNTIME_TEXT_CHAT_TEMPLATE_H_
#define ISOBIT_RUNTIME_TEXT_CHAT_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace isobit {

// One message of a conversation. `role` is what the template knows, mostly "system", "user",
// "assistant" or "tool".
struct ChatMessage {
  std::string role;
  std::string content;
  // The message's other members as a JSON object, such as {"tool_calls": [...]}; empty: none. A
  // "content" among them stands in place of the text: null, or a list of parts.
  std::string fields = {};

  bool operator==(const ChatMessage&) const = default;
};

struct ChatTemplateOptions {
  bool add_generation_prompt = true;
  std::string bos_token = {};  // values of the template's variables of these names
  std::string eos_token = {};
  std::string tools = {};  // a JSON list of tools; empty: none
  // Further variables as a JSON object, such as {"enable_thinking": false}.
  std::string kwargs = {};
  // What strftime_now tells; none: the local time. A prompt that holds it is not the same tomorrow.
  std::optional<std::tm> now = std::nullopt;
};

// A model's chat template, parsed once. Templates are Jinja; jinja/ says which part of the language
// is supported. Thread-safe: Apply is const.
class ChatTemplate {
 public:
  // InvalidArgument for a syntax error (with line), Unimplemented for a feature that is not
  // supported, named: "chat template uses 'include', which is not supported".
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // The prompt text of a conversation, as Hugging Face renders it. Special tokens stand in it as
  // text; Tokenizer::Encode recognises them. InvalidArgument if the template raises an exception
  // (its message is kept) or uses a value that does not exist, or for JSON that is not as described
  // above; ResourceExhausted beyond the limits on steps, depth and output.
  absl::StatusOr<std::string> Apply(std::span<const ChatMessage> messages,
                                    const ChatTemplateOptions& options) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

// Parse and Apply in one.
absl::StatusOr<std::string> ApplyChatTemplate(std::string_view source,
                                              std::span<const ChatMessage> messages,
                                              const ChatTemplateOptions& options);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_CHAT_TEMPLATE_H_
