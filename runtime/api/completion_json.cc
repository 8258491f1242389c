#include "runtime/api/completion_json.h"

#include <vector>

#include "kernels/numerics/contract_version.h"
#include "runtime/api/json_writer.h"

namespace isobit {

void WriteLogProbs(const std::optional<std::vector<TokenLogProbs>>& positions, JsonWriter& out) {
  if (!positions.has_value()) {
    out.Null();
    return;
  }
  out.BeginArray();
  for (const TokenLogProbs& position : *positions) {
    if (position.token_id < 0) {  // the first token of a prompt has none
      out.Null();
      continue;
    }
    out.BeginObject().Field("token_id", position.token_id).Field("logprob", position.logprob);
    out.Key("top").BeginArray();
    for (const TokenLogProb& top : position.top) {
      out.BeginObject().Field("token_id", top.token).Field("logprob", top.logprob).EndObject();
    }
    out.EndArray().EndObject();
  }
  out.EndArray();
}

namespace {

void WriteChoice(const Choice& choice, JsonWriter& out) {
  out.BeginObject();
  out.Field("index", choice.index);
  out.Field("text", choice.text);
  out.Field("token_ids", choice.token_ids);
  out.Field("finish_reason", FinishReasonName(choice.finish_reason));
  WriteLogProbs(choice.logprobs, out.Key("logprobs"));
  out.Field("digest", choice.digest.ToHex());
  out.EndObject();
}

}  // namespace

std::string CompletionToJson(const Completion& completion, std::string_view fingerprint) {
  size_t completion_tokens = 0;
  JsonWriter out;
  out.BeginObject();
  out.Field("id", completion.id);
  out.Field("digest", completion.digest.ToHex());
  out.Field("seed", completion.seed);
  out.Field("model_digest", completion.model_digest.ToHex());
  out.Field("contract", kContractVersion);
  out.Field("prompt_token_ids", completion.prompt_token_ids);
  WriteLogProbs(completion.prompt_logprobs, out.Key("prompt_logprobs"));
  out.Key("choices").BeginArray();
  for (const Choice& choice : completion.choices) {
    WriteChoice(choice, out);
    completion_tokens += choice.token_ids.size();
  }
  out.EndArray();
  out.Key("usage").BeginObject();
  out.Field("prompt_tokens", completion.prompt_token_ids.size());
  out.Field("completion_tokens", completion_tokens);
  out.Field("cached_tokens", completion.cached_tokens);
  out.EndObject();
  if (!fingerprint.empty()) out.Field("system_fingerprint", fingerprint);
  return out.EndObject().Take();
}

std::string ErrorToJson(const std::optional<std::string>& id, const absl::Status& error) {
  JsonWriter out;
  out.BeginObject().Field("id", id);
  out.Key("error").BeginObject();
  out.Field("code", ErrorCode(error));
  out.Field("message", std::string(error.message()));
  return out.EndObject().EndObject().Take();
}

std::string_view ErrorCode(const absl::Status& error) {
  switch (error.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "invalid_request";
    case absl::StatusCode::kOutOfRange:
      return "context_length_exceeded";
    case absl::StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case absl::StatusCode::kUnimplemented:
      return "unsupported";
    case absl::StatusCode::kCancelled:
      return "cancelled";
    default:
      return "internal";
  }
}

}  // namespace isobit
