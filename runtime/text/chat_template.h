#ifndef ISOBIT_RUNTIME_TEXT_CHAT_TEMPLATE_H_
#define ISOBIT_RUNTIME_TEXT_CHAT_TEMPLATE_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace isobit {

// One message of a conversation. `role` is what the template knows, mostly "system", "user" or
// "assistant".
struct ChatMessage {
  std::string role;
  std::string content;
};

struct ChatTemplateOptions {
  bool add_generation_prompt = true;
  std::string bos_token;  // value of the template's variable of that name
  std::string eos_token;
};

// A model's chat template, parsed once. Templates are Jinja; jinja/ says which part of the language
// is supported. Thread-safe: Apply is const.
class ChatTemplate {
 public:
  // InvalidArgument for a syntax error (with line), Unimplemented for a feature that is not
  // supported, named: "chat template uses 'macro', which is not supported".
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // The prompt text of a conversation. Special tokens stand in it as text; Tokenizer::Encode
  // recognises them. InvalidArgument if the template raises an exception (its message is kept) or
  // uses a value that does not exist; ResourceExhausted beyond the limits on steps, depth and
  // output.
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
