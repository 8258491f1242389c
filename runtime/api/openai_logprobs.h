#ifndef ISOBIT_RUNTIME_API_OPENAI_LOGPROBS_H_
#define ISOBIT_RUNTIME_API_OPENAI_LOGPROBS_H_

// Log-probabilities in the shapes of OpenAI's API and vLLM's.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/api/json_writer.h"
#include "runtime/engine/request.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

class OpenAiLogProbs {
 public:
  // `tokens_as_ids`: a token is written "token_id:7" instead of its text.
  OpenAiLogProbs(const Tokenizer& tokenizer, bool tokens_as_ids)
      : tokenizer_(tokenizer), tokens_as_ids_(tokens_as_ids) {}

  // /v1/completions: {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. A position
  // without a log-probability (logprob is NaN: the first of a prompt) is null. `characters`: of the
  // text before the first position; moves on to the end of the last.
  void WriteCompletions(std::span<const TokenLogProbs> positions, int64_t& characters,
                        JsonWriter& out) const;

  // /v1/chat/completions: {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal"}
  void WriteChat(std::span<const TokenLogProbs> positions, JsonWriter& out) const;

  // vLLM's prompt_logprobs: [null, {"7": {"logprob", "decoded_token"}}]
  void WritePrompt(std::span<const TokenLogProbs> positions, JsonWriter& out) const;

 private:
  std::string NameOf(int32_t token) const;
  void WriteTopOf(const TokenLogProbs& position, JsonWriter& out) const;
  void WriteChatToken(int32_t token, float logprob, JsonWriter& out) const;

  const Tokenizer& tokenizer_;
  const bool tokens_as_ids_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_OPENAI_LOGPROBS_H_
