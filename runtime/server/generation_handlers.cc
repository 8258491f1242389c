// /v1/completions, /v1/chat/completions, /generate and /score.

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/api/json_writer.h"
#include "runtime/api/native_reply.h"
#include "runtime/api/openai_reply.h"
#include "runtime/api/openai_request.h"
#include "runtime/api/request_json.h"
#include "runtime/api/sampling_json.h"
#include "runtime/json/strict_json.h"
#include "runtime/server/api_handlers.h"

namespace isobit {
namespace {

using json = nlohmann::ordered_json;

template <typename T>
absl::Status AtMost(const char* name, int64_t limit, const T& got) {
  if (std::cmp_less_equal(got, limit)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be at most ", limit, " on this server, got ", got));
}

// What is wrong with parameters, and what a request may cost beyond its tokens.
absl::Status CheckSampling(const SamplingParams& p, const GenerationServices& services) {
  const ServerLimits& limits = services.network.limits();
  absl::Status status = ValidateSampling(p, services.engine.shared_model()->config().vocab);
  status.Update(AtMost("logprobs", limits.max_logprobs, p.logprobs.value_or(0)));
  status.Update(AtMost("prompt_logprobs", limits.max_logprobs, p.prompt_logprobs.value_or(0)));
  status.Update(AtMost("the number of stop texts", limits.max_stops, p.stop.size()));
  status.Update(AtMost("the number of stop_token_ids", limits.max_stops, p.stop_token_ids.size()));
  status.Update(
      AtMost("the number of logit_bias entries", limits.max_logit_bias, p.logit_bias.size()));
  return status;
}

// One seed for all prompts of an answer, which names it once.
void ShareSeed(std::vector<Request>& requests, const Engine& engine) {
  if (requests.size() < 2 || requests.front().sampling.seed || engine.options().seed) return;
  const uint64_t seed = DrawSeed();
  for (Request& request : requests) request.sampling.seed = seed;
}

ReplyIdentity IdentityOf(const GenerationServices& services, const Exchange& exchange) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const ServerOptions& options = services.network.options();
  return {.id = exchange.request().id,
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = options.model_name,
          .build = options.build};
}

void LogPrompt(const GenerationServices& services, const Exchange& exchange) {
  if (!services.network.options().log_prompts) return;
  services.network.Log(absl::StrCat(exchange.request().id, " asks ",
                                    JsonWriter().Value(exchange.request().body).Take()));
}

// ---- OpenAI's

void AnswerOpenAi(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
                  OpenAiRequest request) {
  absl::Status status;
  if (request.model) status = CheckModelName(services, *request.model);
  status.Update(CheckSampling(request.requests.front().sampling, services));
  if (!status.ok()) return exchange->Send(ErrorResponse(status));
  if (request.reply.stream && request.requests.front().sampling.prompt_logprobs) {
    return exchange->Send(ErrorResponse(absl::UnimplementedError(
        "prompt_logprobs, and logprobs with echo, are not supported with stream")));
  }
  for (Request& one : request.requests) one.id = exchange->request().id;
  ShareSeed(request.requests, services.engine);
  const bool stream = request.reply.stream;
  auto format =
      std::make_unique<OpenAiReply>(IdentityOf(services, *exchange), std::move(request.reply),
                                    request.requests, services.engine.shared_model());
  Generation::Start(services, std::move(exchange), std::move(request.requests), std::move(format),
                    stream);
}

void Completions(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
                 const json& body) {
  absl::StatusOr<OpenAiRequest> request = ReadCompletionsRequest(body);
  if (!request.ok()) return exchange->Send(ErrorResponse(request.status()));
  AnswerOpenAi(services, std::move(exchange), *std::move(request));
}

void Chat(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
          const json& body) {
  absl::StatusOr<OpenAiRequest> request =
      ReadChatRequest(body, services.engine.options().max_model_len);
  if (!request.ok()) return exchange->Send(ErrorResponse(request.status()));
  AnswerOpenAi(services, std::move(exchange), *std::move(request));
}

// ---- Ours: a request of `isobit batch`

struct NativeRequest {
  std::string model;
  bool stream = false;
  Request request;
};

// Takes out of `body` what is not the request's.
absl::StatusOr<NativeRequest> ReadNative(json body, const GenerationServices& services,
                                         const Exchange& exchange) {
  if (!body.is_object()) return JsonTypeError("a request", "a JSON object", body);
  NativeRequest native;
  native.model = services.network.options().model_name;
  if (const auto model = body.find("model"); model != body.end()) {
    if (absl::Status s = ReadJson(*model, "model", native.model); !s.ok()) return s;
    body.erase(model);
  }
  if (const auto stream = body.find("stream"); stream != body.end()) {
    if (absl::Status s = ReadJson(*stream, "stream", native.stream); !s.ok()) return s;
    body.erase(stream);
  }
  if (!body.contains("id")) body["id"] = exchange.request().id;
  absl::StatusOr<Request> request = ReadRequest(body);
  if (!request.ok()) return request.status();
  native.request = *std::move(request);
  if (absl::Status s = CheckSampling(native.request.sampling, services); !s.ok()) return s;
  return native;
}

void StartNative(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
                 NativeRequest native, std::unique_ptr<ReplyFormat> format) {
  const absl::Status status = CheckModelName(services, native.model);
  if (!status.ok()) return exchange->Send(ErrorResponse(status));
  std::vector<Request> requests;
  requests.push_back(std::move(native.request));
  Generation::Start(services, std::move(exchange), std::move(requests), std::move(format),
                    native.stream);
}

void Generate(const GenerationServices& services, std::shared_ptr<Exchange> exchange, json body) {
  absl::StatusOr<NativeRequest> native = ReadNative(std::move(body), services, *exchange);
  if (!native.ok()) return exchange->Send(ErrorResponse(native.status()));
  StartNative(services, std::move(exchange), *std::move(native),
              std::make_unique<GenerateReply>(services.network.options().build));
}

void Score(const GenerationServices& services, std::shared_ptr<Exchange> exchange, json body) {
  if (body.is_object()) {
    for (const auto& [name, unused] : body.items()) {
      // Nothing is drawn, so nothing that decides a draw has a meaning.
      if (name == "stream" || (IsSamplingField(name) && name != "prompt_logprobs")) {
        return exchange->Send(ErrorResponse(
            absl::InvalidArgumentError(absl::StrCat("unknown field ", DescribeJson(name)))));
      }
    }
  }
  absl::StatusOr<NativeRequest> native = ReadNative(std::move(body), services, *exchange);
  if (!native.ok()) return exchange->Send(ErrorResponse(native.status()));
  SamplingParams& sampling = native->request.sampling;
  sampling.max_tokens = 0;
  sampling.temperature = 0;
  if (!sampling.prompt_logprobs) sampling.prompt_logprobs = 0;
  StartNative(services, std::move(exchange), *std::move(native),
              std::make_unique<ScoreReply>(services.network.options().build));
}

}  // namespace

absl::StatusOr<json> ParseBody(Exchange& exchange, bool optional) {
  if (optional && exchange.request().body.empty()) return json::object();
  absl::StatusOr<json> body = ParseStrictJsonInOrder(exchange.request().body);
  if (body.ok()) exchange.ReleaseBody();
  return body;
}

absl::Status CheckModelName(const GenerationServices& services, const std::string& asked) {
  const std::string& served = services.network.options().model_name;
  if (asked == served) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("model ", DescribeJson(asked), " is not served here, ",
                                          DescribeJson(served), " is"));
}

void AddGenerationRoutes(const GenerationServices& services, Router& router) {
  const auto add = [&](const char* path, auto answer) {
    router.Add({.method = "POST",
                .path = path,
                .handler = [services, answer](std::shared_ptr<Exchange> exchange) {
                  LogPrompt(services, *exchange);
                  absl::StatusOr<json> body = ParseBody(*exchange);
                  if (!body.ok()) return exchange->Send(ErrorResponse(body.status()));
                  answer(services, std::move(exchange), *std::move(body));
                }});
  };
  add("/v1/completions", Completions);
  add("/v1/chat/completions", Chat);
  add("/generate", Generate);
  add("/score", Score);
}

}  // namespace isobit
