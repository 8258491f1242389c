#ifndef ISOBIT_RUNTIME_ENGINE_REQUEST_H_
#define ISOBIT_RUNTIME_ENGINE_REQUEST_H_

// What goes into the engine and what comes out. Plain values; no thread safety of their own.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops.h"
#include "runtime/receipt/digest.h"
#include "runtime/text/chat_template.h"

namespace isobit {

// The largest n of a request.
inline constexpr int64_t kMaxCompletions = 128;

enum class LogProbsMode {
  kRaw,        // of the logits as they left the model
  kProcessed,  // after penalties, temperature and filters
};

// Names, meanings and defaults are those of OpenAI's API and vLLM's.
struct SamplingParams {
  int64_t max_tokens = 16;       // 0 is allowed: the prompt is only scored
  int64_t min_tokens = 0;        // until then neither end-of-sequence nor stop ids are drawn
  double temperature = 1;        // 0: greedy
  int64_t top_k = 0;             // 0: off
  double top_p = 1;              // in (0, 1]
  double min_p = 0;              // in [0, 1]
  std::optional<uint64_t> seed;  // none: one is drawn, used and returned
  int64_t n = 1;                 // completions of the same prompt, with sample indices 0 .. n - 1
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double repetition_penalty = 1;
  std::vector<std::pair<int32_t, double>> logit_bias;  // (token, bias), each token once
  std::vector<std::string> stop;  // text that ends a completion; not part of it
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::optional<int64_t> logprobs;         // k: of each token and of the k most likely
  std::optional<int64_t> prompt_logprobs;  // the same for the prompt; always raw
  LogProbsMode logprobs_mode = LogProbsMode::kRaw;
};

// OK, or InvalidArgument that names the parameter, its range and what it got: "temperature must be
// >= 0, got -1".
absl::Status ValidateSampling(const SamplingParams& params, int64_t vocab_size);

// OK, or InvalidArgument: "<name>[1] must be in [0, 267), got 267".
absl::Status CheckTokenIds(std::span<const int32_t> ids, int64_t vocab_size, std::string_view name);

// A choice of a completion, to be drawn again. One prefill over prompt and output, with the
// recorded tokens in their places whatever is drawn, gives the logits behind each of them; those at
// `at` are drawn as they were drawn then.
struct Redraw {
  int choice = 0;
  std::vector<int32_t> output;  // the tokens that were drawn, at least one
  std::vector<int64_t> at;      // which to draw again: indices in output, ascending
};

struct Request {
  std::string id;
  // Text (special tokens in it are recognised), token ids, or a conversation for the model's chat
  // template.
  std::variant<std::string, std::vector<int32_t>, std::vector<ChatMessage>> prompt;
  SamplingParams sampling;
  // With a conversation: what the template knows as tools (a JSON list), and further variables of
  // it (a JSON object). Empty: none.
  std::string tools = {};
  std::string chat_template_kwargs = {};
  // Set: nothing new is drawn. RequestCallbacks::on_redrawn gets the tokens; the completion has no
  // output. `sampling` is what was used then, its seed included.
  std::optional<Redraw> redraw = std::nullopt;
};

struct TokenLogProbs {
  int32_t token_id = -1;
  float logprob = 0;
  std::vector<TokenLogProb> top;  // most likely first, at most k
};

enum class FinishReason { kStop, kLength, kCancelled };
const char* FinishReasonName(FinishReason reason);  // "stop", "length", "cancelled"

struct Choice {
  int index = 0;
  std::string text;                // without special tokens and without the stop string
  std::vector<int32_t> token_ids;  // all that were drawn, the end-of-sequence token included
  FinishReason finish_reason = FinishReason::kLength;
  std::optional<std::vector<TokenLogProbs>> logprobs;  // if asked for
  Digest digest;
};

struct Completion {
  std::string id;
  Digest digest;                 // covers its choices
  std::optional<uint64_t> seed;  // none if greedy
  std::vector<int32_t> prompt_token_ids;
  std::optional<std::vector<TokenLogProbs>>
      prompt_logprobs;          // if asked for; token 0 has none: token_id -1
  std::vector<Choice> choices;  // by index
  // The model that it was computed with, and what its file calls it.
  Digest model_digest;
  std::string model_name;
  // Depends on the schedule; not in the digest.
  int64_t cached_tokens = 0;  // prompt tokens of choice 0 that came from the prefix cache
};

// One drawn token, as it is delivered.
struct TokenEvent {
  int choice = 0;
  int32_t token_id = -1;
  std::string text;  // what became final by this token; may be empty, never part of a character
  const TokenLogProbs* logprobs = nullptr;  // null unless asked for; valid during the call
  Digest model_digest;                      // as the completion's
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_REQUEST_H_
