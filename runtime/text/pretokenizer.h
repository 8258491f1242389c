#ifndef ISOBIT_RUNTIME_TEXT_PRETOKENIZER_H_
#define ISOBIT_RUNTIME_TEXT_PRETOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/text/split_pattern.h"

namespace isobit {

// Splits text into the words that BPE merges within. Thread-safe: immutable.
//
// Published pre-tokenizers are lists of steps, each splitting the pieces that the one before left.
// Splitting takes time in proportion to the text, with a bound on what a pattern may cost.
class PreTokenizer {
 public:
  // What becomes of a step's matches, as Hugging Face names it.
  enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

  // Splits nothing.
  PreTokenizer() = default;

  // By the value of tokenizer.ggml.pre. Unimplemented for a name that is not known, listing those
  // that are.
  static absl::StatusOr<PreTokenizer> ForName(std::string_view name);

  // Adds a step that splits at the matches of a regular expression, or, inverted, at what lies
  // between them. Errors are SplitPattern::Parse's.
  absl::Status AddPattern(std::string_view pattern, Behavior behavior = Behavior::kIsolated,
                          bool inverted = false);
  // The same with a text that is matched literally and is not empty.
  void AddLiteral(std::string_view text, Behavior behavior, bool inverted);
  // From here on the characters are bytes, written in the byte alphabet. At most once.
  void AddByteLevel();

  // Appends to `words` the begin and end in bytes of each word, ascending, none empty. Steps that
  // remove their matches leave gaps. REQUIRES: valid UTF-8. ResourceExhausted if a pattern takes
  // more work than a multiple of the text.
  absl::Status Split(std::string_view text, std::vector<std::pair<size_t, size_t>>* words) const;

  bool empty() const { return steps_.empty(); }
  // What the file called it; empty if it was put together from steps.
  const std::string& name() const { return name_; }
  // The name in GGUF files of one with these steps and properties, or else a description that only
  // equal pre-tokenizers share.
  std::string NameAmong(bool normalizes, bool ignores_merges) const;
  // Properties of the names in GGUF files, where the file does not say them.
  // Whether text is brought to NFC before splitting.
  bool normalizes() const { return normalizes_; }
  // Whether a word that is a token is taken whole, without merging.
  bool ignores_merges() const { return ignores_merges_; }

 private:
  struct Step;

  std::string name_;
  std::vector<std::shared_ptr<const Step>> steps_;
  bool normalizes_ = false;
  bool ignores_merges_ = false;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_PRETOKENIZER_H_
