// Conversations: messages as structs or as JSON, and what a chat template gets besides.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/api/c/handles.h"
#include "runtime/api/c/isobit.h"
#include "runtime/api/c/marshal.h"
#include "runtime/api/c/parameters.h"
#include "runtime/api/c/status.h"
#include "runtime/api/request_json.h"
#include "runtime/json/strict_json.h"

namespace isobit::c {
namespace {

absl::Status ReadMessages(const isobit_message* messages, size_t count,
                          std::vector<ChatMessage>& out) {
  if (absl::Status s = CheckLength(messages, count, "messages"); !s.ok()) return s;
  if (count == 0) return absl::InvalidArgumentError("messages must not be empty");
  for (size_t i = 0; i < count; ++i) {
    const isobit_message& from = messages[i];
    const std::string place = absl::StrCat("messages[", i, "]");
    if (absl::Status s = NotNull(from.role, (place + ".role").c_str()); !s.ok()) return s;
    ChatMessage& message = out.emplace_back();
    message.role = from.role;
    const absl::Status status =
        ReadText(from.content, from.content_length, (place + ".content").c_str(), message.content);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

using JsonReader = absl::Status (*)(const nlohmann::ordered_json&, std::string_view, std::string&);

// The value of a field that is JSON; NULL is null.
absl::StatusOr<nlohmann::ordered_json> ReadJsonField(const char* text, size_t length,
                                                     const char* name) {
  if (text == nullptr && length == 0) return nlohmann::ordered_json();
  std::string copy;
  if (absl::Status s = ReadText(text, length, name, copy); !s.ok()) return s;
  if (copy.size() > kMaxRequestBytes) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be at most ", kMaxRequestBytes,
                                                   " bytes long, got ", copy.size()));
  }
  absl::StatusOr<nlohmann::ordered_json> value = ParseStrictJsonInOrder(copy);
  if (value.ok()) return value;
  return absl::Status(value.status().code(), absl::StrCat(name, ": ", value.status().message()));
}

absl::Status ReadTemplateField(const char* text, size_t length, const char* name, JsonReader read,
                               std::string& out) {
  const absl::StatusOr<nlohmann::ordered_json> value = ReadJsonField(text, length, name);
  return value.ok() ? read(*value, name, out) : value.status();
}

isobit_status Render(isobit_engine* engine, const Request& request, bool add_generation_prompt,
                     char* text, size_t capacity, size_t* text_length) {
  const absl::StatusOr<std::string> prompt = engine->engine->shared_model()->ApplyChatTemplate(
      std::get<std::vector<ChatMessage>>(request.prompt), add_generation_prompt, request.tools,
      request.chat_template_kwargs);
  if (!prompt.ok()) return Report(prompt.status());
  return WriteText(*prompt, text, capacity, text_length);
}

}  // namespace

absl::Status ReadConversation(const isobit_request_params& from, Request& out) {
  if ((from.messages != nullptr) == (from.messages_json != nullptr)) {
    return absl::InvalidArgumentError("a conversation has one of messages and messages_json");
  }
  auto& messages = out.prompt.emplace<std::vector<ChatMessage>>();
  absl::Status status;
  if (from.messages != nullptr) {
    status = ReadMessages(from.messages, from.message_count, messages);
  } else {
    const auto value =
        ReadJsonField(from.messages_json, from.messages_json_length, "messages_json");
    status = value.ok() ? isobit::ReadMessages(*value, "messages", messages) : value.status();
  }
  if (status.ok()) {
    status = ReadTemplateField(from.tools, from.tools_length, "tools", ReadTools, out.tools);
  }
  if (!status.ok()) return status;
  return ReadTemplateField(from.chat_template_kwargs, from.chat_template_kwargs_length,
                           "chat_template_kwargs", ReadChatTemplateKwargs,
                           out.chat_template_kwargs);
}

}  // namespace isobit::c

using namespace isobit::c;  // NOLINT(build/namespaces)

isobit_status isobit_render_conversation(isobit_engine* engine, const isobit_request_params* params,
                                         int32_t add_generation_prompt, char* text, size_t capacity,
                                         size_t* text_length) {
  return Guard([&]() -> isobit_status {
    absl::Status status = NotNull(engine, "engine");
    if (status.ok()) status = NotNull(params, "params");
    isobit_request_params from = {};
    if (status.ok()) status = ReadStruct(params, "params", from);
    isobit::Request request;
    if (status.ok()) status = ReadConversation(from, request);
    if (!status.ok()) return Report(status);
    return Render(engine, request, add_generation_prompt != 0, text, capacity, text_length);
  });
}

isobit_status isobit_apply_chat_template(isobit_engine* engine, const isobit_message* messages,
                                         size_t message_count, int32_t add_generation_prompt,
                                         char* text, size_t capacity, size_t* text_length) {
  static constexpr isobit_message kNone = {};
  isobit_request_params params;
  isobit_request_params_init(&params, sizeof(params));
  params.messages = messages == nullptr && message_count == 0 ? &kNone : messages;
  params.message_count = message_count;
  return isobit_render_conversation(engine, &params, add_generation_prompt, text, capacity,
                                    text_length);
}
