#ifndef ISOBIT_RUNTIME_ENGINE_REDRAWER_H_
#define ISOBIT_RUNTIME_ENGINE_REDRAWER_H_

// Draws tokens of a finished completion again (see Redraw in request.h). One prefill computes all
// of its tokens, teacher-forced; this says at which of its rows logits are needed, and how each
// was drawn: with the penalties, forbidden tokens and random bits of its place.
//
// Not thread-safe: lives on the engine's thread.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "runtime/engine/request.h"
#include "runtime/engine/sequence.h"

namespace isobit {

class Redrawer {
 public:
  // `params` and `seed` are those that were used.
  Redrawer(const std::vector<int32_t>& prompt, const SamplingParams& params, uint64_t seed,
           Redraw redraw, int64_t max_length, const Tokenizer& tokenizer,
           const Digest& model_digest);

  // What has to be computed: prompt and output, but for the last token.
  std::vector<int32_t> ComputedTokens() const;

  // Whether the logits of this position are needed, and were not yet. After a preemption positions
  // start again from 0.
  bool Wants(int64_t position) const;

  // How the token behind these logits is drawn; appends its edits. Each wanted position once,
  // ascending.
  // InvalidArgument if the completion ends before that token.
  absl::StatusOr<SamplingRow> NextRow(int64_t position, std::vector<LogitEdit>* edits);

  // The index in the output of the token that the logits of a position draw.
  int64_t IndexOf(int64_t position) const { return position - (past_.prompt_size() - 1); }

 private:
  const Redraw redraw_;
  size_t next_ = 0;  // in redraw_.at
  Sequence past_;    // the completion as far as it goes before the next token
};

// OK, or what is wrong with a redraw for a vocabulary of this size.
absl::Status ValidateRedraw(const Redraw& redraw, int64_t vocab);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_REDRAWER_H_
