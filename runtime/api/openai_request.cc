#include "runtime/api/openai_request.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/api/request_json.h"
#include "runtime/api/sampling_json.h"
#include "runtime/json/strict_json.h"

namespace isobit {
namespace {

using json = nlohmann::ordered_json;

// A request as its fields are read, one by one.
struct Draft {
  OpenAiRequest request;
  SamplingParams sampling;
  std::vector<decltype(Request::prompt)> prompts;
  // Chat: whether, and of how many.
  bool chat_logprobs = false;
  std::optional<int64_t> top_logprobs;
  std::optional<int64_t> max_tokens, max_completion_tokens;
  std::optional<int64_t> best_of;
  // Chat: what else its template sees.
  std::string tools, chat_template_kwargs;
};

// ---- Fields that both endpoints know

absl::Status ReadStreamOptions(const json& value, std::string_view name, Draft& draft) {
  if (!value.is_object()) return JsonTypeError(name, "an object", value);
  for (const auto& [key, option] : value.items()) {
    const std::string option_name = absl::StrCat(std::string(name), ".", key);
    if (key != "include_usage") {
      return absl::InvalidArgumentError(absl::StrCat("unknown field ", DescribeJson(option_name)));
    }
    const absl::Status status = ReadJson(option, option_name, draft.request.reply.include_usage);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReadResponseFormat(const json& value, std::string_view name, Draft&) {
  if (!value.is_object() || !value.contains("type")) {
    return JsonTypeError(name, "an object with a type", value);
  }
  const json& type = value["type"];
  if (type == "text") return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(std::string(name), " of type ", DescribeJson(type),
                                               " is not supported: only \"text\" is"));
}

// Names whoever asks, for statistics that are not kept here.
absl::Status ReadUser(const json& value, std::string_view name, Draft&) {
  std::string user;
  return ReadJson(value, name, user);
}

struct Field {
  std::string_view name;
  absl::Status (*read)(const json& value, std::string_view name, Draft& draft);
};

template <auto kMember>
constexpr Field OfReply(std::string_view name) {
  return {name, [](const json& value, std::string_view n, Draft& draft) {
            return ReadJson(value, n, draft.request.reply.*kMember);
          }};
}

template <auto kMember>
constexpr Field OfDraft(std::string_view name) {
  return {name, [](const json& value, std::string_view n, Draft& draft) {
            return ReadJson(value, n, draft.*kMember);
          }};
}

constexpr Field kSharedFields[] = {
    {"model", [](const json& value, std::string_view name,
                 Draft& draft) { return ReadJson(value, name, draft.request.model); }},
    OfReply<&OpenAiReplyOptions::stream>("stream"),
    {"stream_options", ReadStreamOptions},
    {"response_format", ReadResponseFormat},
    OfReply<&OpenAiReplyOptions::return_token_ids>("return_token_ids"),
    OfReply<&OpenAiReplyOptions::tokens_as_ids>("return_tokens_as_token_ids"),
    {"user", ReadUser},
};

// ---- Completions

absl::Status ReadPrompts(const json& value, std::string_view name, Draft& draft) {
  if (value.is_string()) {
    draft.prompts.emplace_back(value.get<std::string>());
    return absl::OkStatus();
  }
  if (!value.is_array() || value.empty()) {
    return JsonTypeError(name, "a text, token ids, or an array of either", value);
  }
  if (value.front().is_number()) {
    auto& prompt = draft.prompts.emplace_back(std::vector<int32_t>());
    return ReadJson(value, name, std::get<std::vector<int32_t>>(prompt));
  }
  for (const json& element : value) {
    const std::string place = absl::StrCat(std::string(name), "[", draft.prompts.size(), "]");
    if (element.is_string()) {
      draft.prompts.emplace_back(element.get<std::string>());
      continue;
    }
    if (!element.is_array()) return JsonTypeError(place, "a text or token ids", element);
    auto& prompt = draft.prompts.emplace_back(std::vector<int32_t>());
    const absl::Status status = ReadJson(element, place, std::get<std::vector<int32_t>>(prompt));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

constexpr Field kCompletionsFields[] = {
    {"prompt", ReadPrompts},
    OfReply<&OpenAiReplyOptions::echo>("echo"),
    OfDraft<&Draft::best_of>("best_of"),
};

// ---- Chat

absl::Status ReadConversation(const json& value, std::string_view name, Draft& draft) {
  auto& prompt = draft.prompts.emplace_back(std::vector<ChatMessage>());
  return ReadMessages(value, name, std::get<std::vector<ChatMessage>>(prompt));
}

constexpr Field kChatFields[] = {
    {"messages", ReadConversation},
    {"tools", [](const json& value, std::string_view name,
                 Draft& draft) { return ReadTools(value, name, draft.tools); }},
    {"chat_template_kwargs",
     [](const json& value, std::string_view name, Draft& draft) {
       return ReadChatTemplateKwargs(value, name, draft.chat_template_kwargs);
     }},
    OfDraft<&Draft::chat_logprobs>("logprobs"),
    OfDraft<&Draft::top_logprobs>("top_logprobs"),
    OfDraft<&Draft::max_tokens>("max_tokens"),
    OfDraft<&Draft::max_completion_tokens>("max_completion_tokens"),
};

// ---- All fields

const Field* Find(std::span<const Field> fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

absl::Status ReadFields(const json& object, std::span<const Field> own_fields, Draft& draft) {
  if (!object.is_object()) return JsonTypeError("a request", "a JSON object", object);
  for (const auto& [name, value] : object.items()) {
    const Field* field = Find(own_fields, name);
    if (field == nullptr) field = Find(kSharedFields, name);
    if (field == nullptr && !IsSamplingField(name)) {
      return absl::InvalidArgumentError(absl::StrCat("unknown field ", DescribeJson(name)));
    }
    if (value.is_null()) continue;
    const absl::Status status = field != nullptr ? field->read(value, field->name, draft)
                                                 : ReadSamplingField(value, name, draft.sampling);
    if (!status.ok()) return status;
  }
  if (draft.request.reply.include_usage && !draft.request.reply.stream) {
    return absl::InvalidArgumentError("stream_options needs stream to be true");
  }
  return absl::OkStatus();
}

// One request a prompt, all with the same parameters.
OpenAiRequest Finish(Draft draft) {
  draft.request.reply.logprobs = draft.sampling.logprobs;
  for (auto& prompt : draft.prompts) {
    draft.request.requests.push_back({.id = "",
                                      .prompt = std::move(prompt),
                                      .sampling = draft.sampling,
                                      .tools = draft.tools,
                                      .chat_template_kwargs = draft.chat_template_kwargs});
  }
  return std::move(draft.request);
}

}  // namespace

absl::StatusOr<OpenAiRequest> ReadCompletionsRequest(const json& object) {
  Draft draft;
  if (absl::Status s = ReadFields(object, kCompletionsFields, draft); !s.ok()) return s;
  if (draft.prompts.empty()) return absl::InvalidArgumentError("prompt is missing");
  if (draft.best_of && *draft.best_of != draft.sampling.n) {
    return absl::InvalidArgumentError(absl::StrCat("best_of must be n (", draft.sampling.n,
                                                   "): all completions are returned, got ",
                                                   *draft.best_of));
  }
  draft.request.reply.prompt_logprobs = draft.sampling.prompt_logprobs;
  if (draft.request.reply.echo && draft.sampling.logprobs) {
    draft.sampling.prompt_logprobs =
        std::max(draft.sampling.prompt_logprobs.value_or(0), *draft.sampling.logprobs);
  }
  return Finish(std::move(draft));
}

absl::StatusOr<OpenAiRequest> ReadChatRequest(const json& object, int64_t max_tokens) {
  Draft draft;
  draft.request.reply.chat = true;
  if (absl::Status s = ReadFields(object, kChatFields, draft); !s.ok()) return s;
  if (draft.prompts.empty()) return absl::InvalidArgumentError("messages is missing");
  if (draft.max_tokens && draft.max_completion_tokens) {
    return absl::InvalidArgumentError(
        "max_tokens is the old name of max_completion_tokens: only one of them can be given");
  }
  draft.sampling.max_tokens =
      draft.max_completion_tokens.value_or(draft.max_tokens.value_or(max_tokens));
  if (draft.top_logprobs && !draft.chat_logprobs) {
    return absl::InvalidArgumentError("top_logprobs needs logprobs to be true");
  }
  if (draft.chat_logprobs) draft.sampling.logprobs = draft.top_logprobs.value_or(0);
  draft.request.reply.prompt_logprobs = draft.sampling.prompt_logprobs;
  return Finish(std::move(draft));
}

}  // namespace isobit
