#ifndef ISOBIT_RUNTIME_TEXT_NORMALIZER_H_
#define ISOBIT_RUNTIME_TEXT_NORMALIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace isobit {

// Rewrites text before it is tokenized, step by step, as Hugging Face's normalizers of the same
// names do. Thread-safe: immutable once filled.
class Normalizer {
 public:
  bool empty() const { return steps_.empty(); }

  void AddNfc();
  void AddNfd();
  void AddNfkc();
  void AddNfkd();
  void AddLowercase();
  void AddStrip(bool left, bool right);  // of white space
  // In front of a text that is not empty.
  void AddPrepend(std::string_view prefix);
  // In front of a text that does not begin with it; `first_only`: only at the beginning of all
  // that is encoded, not behind an added token.
  void AddDummyPrefix(std::string_view prefix, bool first_only);
  void AddReplace(std::string_view text, std::string_view with);
  // Errors are SplitPattern::Parse's.
  absl::Status AddReplacePattern(std::string_view pattern, std::string_view with);

  // Runs of spaces become one, those at the ends go (SentencePiece's remove_extra_whitespaces).
  void AddCollapseSpaces();

  // `at_start`: whether the text begins all that is encoded. REQUIRES: valid UTF-8, which the
  // result is too. ResourceExhausted if a step fails.
  absl::StatusOr<std::string> Apply(std::string_view text, bool at_start) const;

  // Equal for normalizers with equal steps.
  const std::string& description() const { return description_; }

 private:
  struct Step;
  void Add(std::string_view name, Step step);

  std::vector<std::shared_ptr<const Step>> steps_;
  std::string description_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_NORMALIZER_H_
