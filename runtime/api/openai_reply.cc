#include "runtime/api/openai_reply.h"

#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

// The prompt as it is repeated before a completion.
std::string EchoOf(const Request& request, const Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&request.prompt)) return *text;
  const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt);
  return ids == nullptr ? "" : tokenizer.Decode(*ids, /*skip_special=*/false);
}

// Positions of an echoed prompt and what follows it, with at most `top` alternatives each.
std::vector<TokenLogProbs> JoinLogProbs(const Completion& completion, const Choice& choice,
                                        int64_t top) {
  std::vector<TokenLogProbs> joined = *completion.prompt_logprobs;
  joined.front() = {.token_id = completion.prompt_token_ids.front(),
                    .logprob = std::numeric_limits<float>::quiet_NaN(),
                    .top = {}};
  joined.insert(joined.end(), choice.logprobs->begin(), choice.logprobs->end());
  for (TokenLogProbs& position : joined) {
    if (std::ssize(position.top) > top) position.top.resize(static_cast<size_t>(top));
  }
  return joined;
}

}  // namespace

OpenAiReply::OpenAiReply(ReplyIdentity identity, OpenAiReplyOptions options,
                         const std::vector<Request>& requests, std::shared_ptr<const Model> model)
    : identity_(std::move(identity)),
      options_(std::move(options)),
      id_(absl::StrCat(options_.chat ? "chatcmpl-" : "cmpl-", identity_.id)),
      model_(std::move(model)),
      logprobs_(model_->tokenizer(), options_.tokens_as_ids),
      n_(static_cast<size_t>(requests.front().sampling.n)),
      progress_(requests.size() * n_) {
  if (!options_.echo) return;
  for (const Request& request : requests) {
    echoed_.push_back(EchoOf(request, model_->tokenizer()));
  }
}

size_t OpenAiReply::IndexOf(size_t prompt, int choice) const {
  return prompt * n_ + static_cast<size_t>(choice);
}

// An object with the fields that all answers share, open for more.
JsonWriter OpenAiReply::Begin(const char* object, const Digest& model_digest) {
  if (fingerprint_of_ != model_digest) {
    fingerprint_of_ = model_digest;
    fingerprint_ = SystemFingerprint(identity_.build, model_digest);
  }
  JsonWriter out;
  out.BeginObject().Field("id", id_).Field("object", object);
  out.Field("created", identity_.created).Field("model", identity_.model);
  out.Field("system_fingerprint", fingerprint_);
  return out;
}

void OpenAiReply::WriteText(const char* chat_name, const std::string& text, bool first,
                            JsonWriter& out) const {
  if (!options_.chat) {
    out.Field("text", text);
    return;
  }
  out.Key(chat_name).BeginObject();
  if (first) out.Field("role", "assistant");
  out.Field("content", text);
  if (first) out.Key("refusal").Null();
  out.EndObject();
}

void OpenAiReply::WriteLogProbs(std::span<const TokenLogProbs> positions, int64_t& characters,
                                JsonWriter& out) const {
  if (options_.chat) {
    logprobs_.WriteChat(positions, out);
  } else {
    logprobs_.WriteCompletions(positions, characters, out);
  }
}

void OpenAiReply::WriteUsage(const std::vector<Completion>& completions, JsonWriter& out) const {
  size_t prompt_tokens = 0, completion_tokens = 0;
  int64_t cached_tokens = 0;
  for (const Completion& completion : completions) {
    prompt_tokens += completion.prompt_token_ids.size();
    cached_tokens += completion.cached_tokens;
    for (const Choice& choice : completion.choices) completion_tokens += choice.token_ids.size();
  }
  out.Key("usage").BeginObject();
  out.Field("prompt_tokens", prompt_tokens).Field("completion_tokens", completion_tokens);
  out.Field("total_tokens", prompt_tokens + completion_tokens);
  out.Key("prompt_tokens_details").BeginObject();
  out.Field("cached_tokens", cached_tokens).EndObject().EndObject();
}

// ---- At once

void OpenAiReply::WriteChoice(size_t prompt, const Choice& choice, const Completion& completion,
                              JsonWriter& out) const {
  out.BeginObject().Field("index", IndexOf(prompt, choice.index));
  WriteText("message", options_.echo ? echoed_[prompt] + choice.text : choice.text, true, out);
  out.Key("logprobs");
  int64_t characters = 0;
  if (!choice.logprobs) {
    out.Null();
  } else if (options_.echo) {
    WriteLogProbs(JoinLogProbs(completion, choice, *options_.logprobs), characters, out);
  } else {
    WriteLogProbs(*choice.logprobs, characters, out);
  }
  out.Field("finish_reason", FinishReasonName(choice.finish_reason));
  if (!options_.chat && options_.prompt_logprobs) {
    logprobs_.WritePrompt(*completion.prompt_logprobs, out.Key("prompt_logprobs"));
  }
  if (options_.return_token_ids) {
    if (!options_.chat) out.Field("prompt_token_ids", completion.prompt_token_ids);
    out.Field("token_ids", choice.token_ids);
  }
  out.Field("digest", choice.digest.ToHex()).EndObject();
}

std::string OpenAiReply::Body(const std::vector<Completion>& completions) {
  const Completion& first = completions.front();
  JsonWriter out = Begin(options_.chat ? "chat.completion" : "text_completion", first.model_digest);
  out.Key("choices").BeginArray();
  for (size_t prompt = 0; prompt < completions.size(); ++prompt) {
    for (const Choice& choice : completions[prompt].choices) {
      WriteChoice(prompt, choice, completions[prompt], out);
    }
  }
  out.EndArray();
  WriteUsage(completions, out);
  if (options_.chat && options_.prompt_logprobs) {
    logprobs_.WritePrompt(*first.prompt_logprobs, out.Key("prompt_logprobs"));
  }
  if (options_.chat && options_.return_token_ids) {
    out.Field("prompt_token_ids", first.prompt_token_ids);
  }
  out.Field("seed", first.seed).Field("digest", DigestOf(completions).ToHex());
  return out.EndObject().Take();
}

// ---- As a stream

JsonWriter OpenAiReply::BeginChunk(const Digest& model_digest) {
  JsonWriter out = Begin(options_.chat ? "chat.completion.chunk" : "text_completion", model_digest);
  out.Key("choices").BeginArray();
  return out;
}

JsonWriter OpenAiReply::BeginChunkOf(size_t index, const Digest& model_digest) {
  JsonWriter out = BeginChunk(model_digest);
  out.BeginObject().Field("index", index);
  return out;
}

void OpenAiReply::EndChunkChoice(JsonWriter& out) const {
  out.EndObject().EndArray();
  if (options_.include_usage) out.Key("usage").Null();
}

std::string OpenAiReply::TextChunk(size_t index, const std::string& text,
                                   const Digest& model_digest, bool first) {
  JsonWriter out = BeginChunkOf(index, model_digest);
  WriteText("delta", text, first, out);
  out.Key("logprobs").Null().Key("finish_reason").Null();
  EndChunkChoice(out);
  return out.EndObject().Take();
}

void OpenAiReply::BeginChoice(size_t index, const Digest& model_digest,
                              std::vector<std::string>& events) {
  Progress& progress = progress_[index];
  if (std::exchange(progress.begun, true)) return;
  if (options_.chat) events.push_back(TextChunk(index, "", model_digest, true));
  if (!options_.echo) return;
  const std::string& prompt = echoed_[index / n_];
  events.push_back(TextChunk(index, prompt, model_digest, false));
  progress.characters = CountCharacters(prompt);
}

void OpenAiReply::OnToken(const StreamedToken& token, std::vector<std::string>& events) {
  const size_t index = IndexOf(token.prompt, token.choice);
  BeginChoice(index, token.model_digest, events);
  Progress& progress = progress_[index];
  progress.text_bytes += token.text.size();
  if (!token.logprobs && !options_.return_token_ids) {
    // Until a character is whole there is nothing to say.
    if (!token.text.empty()) {
      events.push_back(TextChunk(index, token.text, token.model_digest, false));
    }
    return;
  }
  JsonWriter out = BeginChunkOf(index, token.model_digest);
  WriteText("delta", token.text, false, out);
  out.Key("logprobs");
  if (token.logprobs) {
    WriteLogProbs(std::span(&*token.logprobs, 1), progress.characters, out);
  } else {
    out.Null();
  }
  out.Key("finish_reason").Null();
  if (options_.return_token_ids) {
    out.Key("token_ids").BeginArray().Value(token.token_id).EndArray();
  }
  EndChunkChoice(out);
  events.push_back(out.EndObject().Take());
}

void OpenAiReply::OnDone(size_t prompt, const Completion& completion,
                         std::vector<std::string>& events) {
  for (const Choice& choice : completion.choices) {
    const size_t index = IndexOf(prompt, choice.index);
    BeginChoice(index, completion.model_digest, events);
    // What a cancellation made final came with no token.
    if (const size_t sent = progress_[index].text_bytes; sent < choice.text.size()) {
      events.push_back(TextChunk(index, choice.text.substr(sent), completion.model_digest, false));
    }
    JsonWriter out = BeginChunkOf(index, completion.model_digest);
    if (options_.chat) {
      out.Key("delta").BeginObject().EndObject();
    } else {
      out.Field("text", "");
    }
    out.Key("logprobs").Null();
    out.Field("finish_reason", FinishReasonName(choice.finish_reason));
    if (options_.return_token_ids) {
      out.Field("prompt_token_ids", completion.prompt_token_ids);
    }
    out.Field("digest", choice.digest.ToHex());
    EndChunkChoice(out);
    out.Field("seed", completion.seed).Field("digest", completion.digest.ToHex());
    events.push_back(out.EndObject().Take());
  }
}

void OpenAiReply::OnEnd(const std::vector<Completion>& completions,
                        std::vector<std::string>& events) {
  if (!options_.include_usage) return;
  const Completion& first = completions.front();
  JsonWriter out = BeginChunk(first.model_digest);
  out.EndArray();
  WriteUsage(completions, out);
  out.Field("seed", first.seed).Field("digest", DigestOf(completions).ToHex());
  events.push_back(out.EndObject().Take());
}

}  // namespace isobit
