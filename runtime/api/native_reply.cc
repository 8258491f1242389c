#include "runtime/api/native_reply.h"

#include "kernels/numerics/contract_version.h"
#include "runtime/api/completion_json.h"
#include "runtime/api/json_writer.h"

namespace isobit {
namespace {

// Of a scored prompt: model, ids and the bits of each log-probability.
Digest ScoreDigest(const Completion& completion) {
  DigestBuilder digest;
  digest.Add("isobit score").Add(int64_t{kContractVersion}).Add(completion.model_digest);
  digest.Add(completion.prompt_token_ids);
  for (const TokenLogProbs& position : *completion.prompt_logprobs) {
    if (position.token_id >= 0) digest.AddBits(position.logprob);
  }
  return digest.Finish();
}

}  // namespace

std::string GenerateReply::Body(const std::vector<Completion>& completions) {
  const Completion& completion = completions.front();
  return CompletionToJson(completion, SystemFingerprint(build_, completion.model_digest));
}

void GenerateReply::OnToken(const StreamedToken& token, std::vector<std::string>& events) {
  JsonWriter out;
  out.BeginObject().Field("index", token.choice).Field("token_id", token.token_id);
  out.Field("text", token.text).Key("logprobs");
  if (token.logprobs) {
    WriteLogProbs(std::vector<TokenLogProbs>{*token.logprobs}, out);
  } else {
    out.Null();
  }
  events.push_back(out.EndObject().Take());
}

void GenerateReply::OnDone(size_t, const Completion& completion, std::vector<std::string>& events) {
  events.push_back(
      CompletionToJson(completion, SystemFingerprint(build_, completion.model_digest)));
}

std::string ScoreReply::Body(const std::vector<Completion>& completions) {
  const Completion& completion = completions.front();
  JsonWriter out;
  out.BeginObject().Field("id", completion.id);
  out.Field("prompt_token_ids", completion.prompt_token_ids);
  WriteLogProbs(completion.prompt_logprobs, out.Key("prompt_logprobs"));
  out.Field("digest", ScoreDigest(completion).ToHex());
  out.Field("model_digest", completion.model_digest.ToHex()).Field("contract", kContractVersion);
  out.Key("usage").BeginObject();
  out.Field("prompt_tokens", completion.prompt_token_ids.size());
  out.Field("cached_tokens", completion.cached_tokens).EndObject();
  out.Field("system_fingerprint", SystemFingerprint(build_, completion.model_digest));
  return out.EndObject().Take();
}

}  // namespace isobit
