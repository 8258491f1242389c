// /tokenize, /detokenize and /tokenizer_info.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/api/json_writer.h"
#include "runtime/api/request_json.h"
#include "runtime/json/strict_json.h"
#include "runtime/server/api_handlers.h"

namespace isobit {
namespace {

using json = nlohmann::ordered_json;

struct TokenizeRequest {
  std::optional<std::string> prompt;
  std::optional<std::vector<ChatMessage>> messages;
  std::string tools, chat_template_kwargs;  // with messages
  std::optional<bool> add_special_tokens;   // default: for a prompt, not for a conversation
  bool add_generation_prompt = true;
  bool return_token_strs = false;
};

absl::Status CheckModel(const GenerationServices& services, const json& value) {
  std::string model;
  if (absl::Status s = ReadJson(value, "model", model); !s.ok()) return s;
  return CheckModelName(services, model);
}

absl::StatusOr<TokenizeRequest> ReadTokenize(const GenerationServices& services, const json& body) {
  if (!body.is_object()) return JsonTypeError("a request", "a JSON object", body);
  TokenizeRequest request;
  for (const auto& [name, value] : body.items()) {
    absl::Status status;
    if (name == "model") {
      status = CheckModel(services, value);
    } else if (name == "prompt") {
      status = ReadJson(value, name, request.prompt.emplace());
    } else if (name == "messages") {
      status = ReadMessages(value, name, request.messages.emplace());
    } else if (name == "tools") {
      status = ReadTools(value, name, request.tools);
    } else if (name == "chat_template_kwargs") {
      status = ReadChatTemplateKwargs(value, name, request.chat_template_kwargs);
    } else if (name == "add_special_tokens") {
      status = ReadJson(value, name, request.add_special_tokens.emplace());
    } else if (name == "add_generation_prompt") {
      status = ReadJson(value, name, request.add_generation_prompt);
    } else if (name == "return_token_strs") {
      status = ReadJson(value, name, request.return_token_strs);
    } else {
      status = absl::InvalidArgumentError(absl::StrCat("unknown field ", DescribeJson(name)));
    }
    if (!status.ok()) return status;
  }
  if (request.prompt.has_value() == request.messages.has_value()) {
    return absl::InvalidArgumentError("a request has one of prompt and messages");
  }
  if (request.prompt && !(request.tools.empty() && request.chat_template_kwargs.empty())) {
    return absl::InvalidArgumentError("tools and chat_template_kwargs must come with messages");
  }
  return request;
}

absl::StatusOr<std::string> Tokenize(const GenerationServices& services, const json& body) {
  absl::StatusOr<TokenizeRequest> read = ReadTokenize(services, body);
  if (!read.ok()) return read.status();
  TokenizeRequest& request = *read;
  const std::shared_ptr<const Model> model = services.engine.shared_model();
  const bool is_text = request.prompt.has_value();
  if (!is_text) {
    absl::StatusOr<std::string> text =
        model->ApplyChatTemplate(*request.messages, request.add_generation_prompt, request.tools,
                                 request.chat_template_kwargs);
    if (!text.ok()) return text.status();
    request.prompt = *std::move(text);
  }
  const absl::StatusOr<std::vector<int32_t>> ids = model->tokenizer().Encode(
      *request.prompt, {.add_special = request.add_special_tokens.value_or(is_text)});
  if (!ids.ok()) return ids.status();
  JsonWriter out;
  out.BeginObject().Field("count", ids->size());
  out.Field("max_model_len", services.engine.options().max_model_len);
  out.Field("tokens", *ids).Key("token_strs");
  if (!request.return_token_strs) return out.Null().EndObject().Take();
  out.BeginArray();
  for (const int32_t id : *ids) {
    out.Value(model->tokenizer().Decode(std::span(&id, 1), /*skip_special=*/false));
  }
  return out.EndArray().EndObject().Take();
}

absl::StatusOr<std::string> Detokenize(const GenerationServices& services, const json& body) {
  if (!body.is_object()) return JsonTypeError("a request", "a JSON object", body);
  std::optional<std::vector<int32_t>> tokens;
  for (const auto& [name, value] : body.items()) {
    absl::Status status;
    if (name == "model") {
      status = CheckModel(services, value);
    } else if (name == "tokens") {
      status = ReadJson(value, name, tokens.emplace());
    } else {
      status = absl::InvalidArgumentError(absl::StrCat("unknown field ", DescribeJson(name)));
    }
    if (!status.ok()) return status;
  }
  if (!tokens) return absl::InvalidArgumentError("tokens is missing");
  const std::shared_ptr<const Model> model = services.engine.shared_model();
  absl::Status status = CheckTokenIds(*tokens, model->config().vocab, "tokens");
  if (!status.ok()) return status;
  JsonWriter out;
  out.BeginObject();
  out.Field("prompt", model->tokenizer().Decode(*tokens, /*skip_special=*/false));
  return out.EndObject().Take();
}

// What clients ask who have no tokenizer of their own; names as vLLM's.
std::string TokenizerInfo(const GenerationServices& services) {
  const std::shared_ptr<const Model> model = services.engine.shared_model();
  const Tokenizer& tokenizer = model->tokenizer();
  JsonWriter out;
  const auto write_token = [&](const char* name, std::optional<int32_t> id) {
    out.Key(name);
    if (id) {
      out.Value(tokenizer.Decode(std::span(&*id, 1), /*skip_special=*/false));
    } else {
      out.Null();
    }
  };
  out.BeginObject().Field("tokenizer_class", "isobit");
  write_token("bos_token", tokenizer.bos_id());
  write_token("eos_token", tokenizer.eos_id());
  out.Field("add_bos_token", tokenizer.adds_bos()).Field("vocab_size", tokenizer.vocab_size());
  out.Field("model_max_length", services.engine.options().max_model_len).Key("chat_template");
  if (const std::optional<std::string_view> chat_template = tokenizer.chat_template()) {
    out.Value(*chat_template);
  } else {
    out.Null();
  }
  return out.EndObject().Take();
}

void Answer(Exchange& exchange, absl::StatusOr<std::string> body) {
  exchange.Send(body.ok() ? HttpResponse{.body = *std::move(body)} : ErrorResponse(body.status()));
}

}  // namespace

void AddTextRoutes(const GenerationServices& services, Router& router) {
  const auto add = [&](const char* path, auto answer) {
    router.Add({.method = "POST",
                .path = path,
                .handler = [services, answer](const std::shared_ptr<Exchange>& exchange) {
                  const absl::StatusOr<json> body = ParseBody(*exchange);
                  Answer(*exchange, body.ok() ? answer(services, *body) : body.status());
                }});
  };
  add("/tokenize", Tokenize);
  add("/detokenize", Detokenize);
  router.Add({.method = "GET",
              .path = "/tokenizer_info",
              .handler = [services](const std::shared_ptr<Exchange>& exchange) {
                Answer(*exchange, TokenizerInfo(services));
              }});
}

}  // namespace isobit
