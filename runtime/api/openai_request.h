#ifndef ISOBIT_RUNTIME_API_OPENAI_REQUEST_H_
#define ISOBIT_RUNTIME_API_OPENAI_REQUEST_H_

// Requests in the format of OpenAI's API, with vLLM's additions.
//
// Reading is strict: what is unknown or can't be done is refused by name, never ignored. null
// stands for a field that is not there. Ranges are checked when the requests are submitted.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "runtime/engine/request.h"

namespace isobit {

// How the answer is to look.
struct OpenAiReplyOptions {
  bool chat = false;
  bool stream = false;
  bool include_usage = false;     // in a stream
  bool echo = false;              // the prompt stands before each completion
  bool return_token_ids = false;  // besides the text
  bool tokens_as_ids = false;     // log-probabilities name tokens "token_id:7"
  std::optional<int64_t> logprobs;
  std::optional<int64_t> prompt_logprobs;  // as asked for, not as needed for echo
};

struct OpenAiRequest {
  std::optional<std::string> model;
  std::vector<Request> requests;  // one a prompt, without ids
  OpenAiReplyOptions reply;
};

// /v1/completions: "prompt" is a text, token ids, or an array of either. InvalidArgument or
// Unimplemented names the field.
absl::StatusOr<OpenAiRequest> ReadCompletionsRequest(const nlohmann::ordered_json& object);

// /v1/chat/completions. A conversation that names no limit may go on for `max_tokens`.
absl::StatusOr<OpenAiRequest> ReadChatRequest(const nlohmann::ordered_json& object, int64_t max_tokens);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_OPENAI_REQUEST_H_
