#include "runtime/engine/redrawer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace isobit {

Redrawer::Redrawer(const std::vector<int32_t>& prompt, const SamplingParams& params, uint64_t seed,
                   Redraw redraw, int64_t max_length, const Tokenizer& tokenizer,
                   const Digest& model_digest)
    : redraw_(std::move(redraw)),
      past_(0, redraw_.choice, prompt, params, seed, max_length, tokenizer, model_digest) {}

std::vector<int32_t> Redrawer::ComputedTokens() const {
  std::vector<int32_t> tokens(past_.tokens().begin(), past_.tokens().begin() + past_.prompt_size());
  tokens.insert(tokens.end(), redraw_.output.begin(), redraw_.output.end() - 1);
  return tokens;
}

bool Redrawer::Wants(int64_t position) const {
  const auto left = redraw_.at.begin() + static_cast<ptrdiff_t>(next_);
  return std::binary_search(left, redraw_.at.end(), IndexOf(position));
}

absl::StatusOr<SamplingRow> Redrawer::NextRow(int64_t position, std::vector<LogitEdit>* edits) {
  assert(Wants(position));
  const int64_t index = IndexOf(position);
  ++next_;
  while (past_.output_size() < index && !past_.finished()) {
    past_.Append({.token = redraw_.output[static_cast<size_t>(past_.output_size())]}, {});
  }
  if (past_.finished()) {
    return absl::InvalidArgumentError(
        absl::StrCat("output token ", index, " comes after the end of the completion, at token ",
                     past_.output_size() - 1));
  }
  return past_.NextRow(edits);
}

absl::Status ValidateRedraw(const Redraw& redraw, int64_t vocab) {
  if (redraw.output.empty()) return absl::InvalidArgumentError("there is no token to draw again");
  if (redraw.choice < 0 || redraw.choice >= kMaxCompletions) {
    return absl::InvalidArgumentError(
        absl::StrCat("choice must be in [0, ", kMaxCompletions, "), got ", redraw.choice));
  }
  for (size_t i = 0; i < redraw.output.size(); ++i) {
    if (redraw.output[i] < 0 || redraw.output[i] >= vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat("output token ", i, " must be in [0, ", vocab, "), got ", redraw.output[i]));
    }
  }
  int64_t least = 0;
  for (int64_t at : redraw.at) {
    if (at < least || at >= static_cast<int64_t>(redraw.output.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tokens to draw again must be ascending and below ", redraw.output.size(), ", got ", at));
    }
    least = at + 1;
  }
  return absl::OkStatus();
}

}  // namespace isobit
