#ifndef ISOBIT_RUNTIME_API_COMPLETION_JSON_H_
#define ISOBIT_RUNTIME_API_COMPLETION_JSON_H_

// Completions and errors as JSON, one object a line.
//
// A log-probability has the fewest digits that give back its fp32 bits; -infinity (probability 0)
// is null. The order of fields never changes.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "runtime/api/json_writer.h"
#include "runtime/engine/request.h"

namespace isobit {

// {"id", "digest", "seed", "model_digest", "contract", "prompt_token_ids", "prompt_logprobs",
//  "choices": [{"index", "text", "token_ids", "finish_reason", "logprobs", "digest"}],
//  "usage": {"prompt_tokens", "completion_tokens", "cached_tokens"}}
// seed is null for greedy requests, log-probabilities are null unless asked for.
// `fingerprint` of the runtime, if not empty, is written last as "system_fingerprint".
std::string CompletionToJson(const Completion& completion, std::string_view fingerprint = {});

// [null | {"token_id", "logprob", "top": [{"token_id", "logprob"}]}], or null.
void WriteLogProbs(const std::optional<std::vector<TokenLogProbs>>& positions, JsonWriter& out);

// {"id", "error": {"code", "message"}}; the id is null if the request could not be read that far.
std::string ErrorToJson(const std::optional<std::string>& id, const absl::Status& error);

// The code of an error: "invalid_request", "context_length_exceeded", "resource_exhausted",
// "unsupported", "cancelled" or "internal".
std::string_view ErrorCode(const absl::Status& error);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_COMPLETION_JSON_H_
