#ifndef ISOBIT_RUNTIME_TEXT_PRETOKENIZER_H_
#define ISOBIT_RUNTIME_TEXT_PRETOKENIZER_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/unicode_classes.h"

namespace isobit {

// Splits text into the words that BPE merges within. Thread-safe: immutable.
//
// Published pre-tokenizers are lists of regular expressions, each splitting the pieces that the one
// before left. Here each expression is a hand-written function (pretokenizer_rules.cc states the
// expression beside it), so splitting is linear in the text whatever the text is, and does not
// depend on a system's regex or Unicode version. Tests hold each against its expression.
class PreTokenizer {
 public:
  // By the value of tokenizer.ggml.pre. Unimplemented for a name that is not known, listing those
  // that are.
  static absl::StatusOr<PreTokenizer> ForName(std::string_view name);

  // Appends to `ends` the byte offset behind each word, ascending; the last is text.size(). No word
  // is empty. REQUIRES: valid UTF-8.
  void Split(std::string_view text, std::vector<size_t>* ends) const;

  std::string_view name() const { return name_; }
  // Whether text is brought to NFC before splitting.
  bool normalizes() const { return normalizes_; }
  // Whether a word that is a token is taken whole, without merging.
  bool ignores_merges() const { return ignores_merges_; }

  struct Char {
    char32_t point;
    CharClass kind;
  };
  // Length of the first piece of `chars`, which is not empty; 1 to chars.size().
  using Rule = size_t (*)(std::span<const Char> chars);

 private:
  PreTokenizer(std::string_view name, std::span<const Rule> rules, bool normalizes,
               bool ignores_merges)
      : name_(name), rules_(rules), normalizes_(normalizes), ignores_merges_(ignores_merges) {}

  std::string_view name_;  // static storage
  std::span<const Rule> rules_;
  bool normalizes_;
  bool ignores_merges_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_PRETOKENIZER_H_
