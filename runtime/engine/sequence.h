#ifndef ISOBIT_RUNTIME_ENGINE_SEQUENCE_H_
#define ISOBIT_RUNTIME_ENGINE_SEQUENCE_H_

// One sequence of tokens that is being extended: a choice of a request. It knows its tokens and
// pages, how its logits are to be treated, and how its output reads; it does not know the engine.
//
// Not thread-safe: lives on the engine's thread.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/ops.h"
#include "runtime/engine/page_pool.h"
#include "runtime/engine/request.h"
#include "runtime/receipt/digest.h"
#include "runtime/text/stop_strings.h"
#include "runtime/text/text_stream.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

// The parameters as the kernels take them.
float EffectiveTemperature(const SamplingParams& params);
bool IsGreedy(const SamplingParams& params);

// Starts the digest of a completion: everything that decides its bits, but its tokens (contract 7).
// `seed` is ignored if greedy.
void AddRequestTo(DigestBuilder& digest, const Digest& model, const std::vector<int32_t>& prompt,
                  const SamplingParams& params, uint64_t seed, int sample_index);

class Sequence {
 public:
  // `prompt` is not empty. `seed` is the one used. `max_length`: tokens of prompt and output
  // together.
  Sequence(int64_t id, int choice, const std::vector<int32_t>& prompt, const SamplingParams& params,
           uint64_t seed, int64_t max_length, const Tokenizer& tokenizer,
           const Digest& model_digest);

  // Of the engine, in order of arrival.
  const int64_t id;
  const int choice;

  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t prompt_size() const { return prompt_size_; }
  int64_t output_size() const { return size() - prompt_size_; }
  // With the tokens that are being drawn.
  int64_t length() const { return size() + drawing; }

  // State that the engine keeps for the sequence.
  int64_t drawing = 0;    // tokens behind the known ones that steps under way draw
  int32_t drawn_row = 0;  // of the sampler's tokens: where the last of them will be
  std::vector<int32_t> pages;
  int64_t computed = 0;       // tokens whose keys and values are in pages
  int64_t published = 0;      // pages given to the prefix cache
  PrefixEnd published_as;     // where the last of them is known
  int64_t cached_tokens = 0;  // taken from the prefix cache when first admitted
  bool admitted_before = false;

  // Whether the next token can be drawn while others are: its logits need none of them.
  bool DrawsAhead() const { return !penalised_; }
  // The tokens that are being drawn are certainly the last.
  bool DrawsLast() const;
  // How to draw the token behind those that are being drawn. Appends this sequence's edits to
  // `edits` and sets their range. REQUIRES: none is being drawn, or DrawsAhead().
  SamplingRow NextRow(std::vector<LogitEdit>* edits) const;

  // Takes a drawn token, with the alternatives that were asked for. Returns the text that became
  // final. After it, finished() may be set.
  std::string Append(const SampledToken& token, std::vector<TokenLogProb> top);

  // Ends the sequence from outside, or with no token at all if max_tokens is 0.
  std::string Finish(FinishReason reason);

  const std::optional<FinishReason>& finished() const { return finished_; }
  // Log-probabilities of the last token; null unless asked for.
  const TokenLogProbs* last_logprobs() const;
  // Of the logits as they left the model, one for each output token, asked for or not.
  const std::vector<float>& drawn_logprobs() const { return drawn_logprobs_; }

  // REQUIRES: finished().
  Choice TakeChoice();

 private:
  void NoteOutput(int32_t token);
  LogitEdit& EditOf(int32_t token);
  std::string Deliver(const std::string& text, bool last);

  const SamplingParams params_;
  const uint64_t seed_;
  const int64_t max_length_;
  const bool penalised_;  // output tokens change the logits to come

  std::vector<int32_t> tokens_;
  const int64_t prompt_size_;
  std::vector<int32_t> end_ids_;  // ascending: any of these ends the sequence

  std::vector<LogitEdit> edits_;
  std::unordered_map<int32_t, size_t> edit_of_token_;  // looked up only

  TextStream stream_;
  StopStrings stops_;
  std::string text_;
  std::vector<TokenLogProbs> logprobs_;
  std::vector<float> drawn_logprobs_;
  DigestBuilder digest_;
  std::optional<FinishReason> finished_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_SEQUENCE_H_
