#ifndef ISOBIT_RUNTIME_TEXT_SPLIT_PATTERN_H_
#define ISOBIT_RUNTIME_TEXT_SPLIT_PATTERN_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/text/unicode_classes.h"

namespace isobit {

// A character with what patterns ask about it.
struct ClassedChar {
  char32_t point;
  CharClass kind;
};

// The characters of `text`, which is valid UTF-8.
std::vector<ClassedChar> Classify(std::string_view text);

// The regular expressions by which tokenizers split text: characters, classes ([...], \p{L}, \s,
// \d, \w and their complements), ? * + {m,n} on them (greedy or possessive), alternatives, groups
// that are optional, (?i:...), look-ahead, and `$` (before a line feed or at the end). Matching is
// Perl's: the first alternative that leads to a match is taken.
//
// An interpreter of our own, because a system's library brings its own Unicode version and its own
// limits on long runs. Recursion is as deep as the pattern is long, whatever the text is.
// Thread-safe: immutable.
class SplitPattern {
 public:
  static constexpr size_t kMaxBytes = 4096;  // of a pattern

  // InvalidArgument for a malformed pattern, Unimplemented for a form that is not known; both quote
  // the pattern and say where.
  static absl::StatusOr<SplitPattern> Parse(std::string_view pattern);

  // A pattern that matches exactly this text, which is not empty.
  static SplitPattern Literal(std::string_view text);

  // Work that a search may still do, counted in characters looked at.
  struct Budget {
    int64_t steps;
  };
  // The end of the match that begins at `at`, or nothing. An exhausted budget (< 0) ends the search
  // with nothing; the caller checks for it.
  std::optional<size_t> MatchAt(std::span<const ClassedChar> text, size_t at, Budget* budget) const;

 private:
  friend class SplitPatternParser;

  struct Set {
    std::bitset<128> ascii;  // complement already applied
    CharClasses classes = 0;
    std::vector<std::pair<char32_t, char32_t>> ranges;  // above ASCII; may overlap
    bool negated = false;

    bool Has(const ClassedChar& c) const;
  };
  struct Node {
    enum Kind {
      kSet,        // `set`, min to max times
      kBranch,     // one of `branches`, the first that leads to a match
      kLookAhead,  // branches[0] matches here (or, negated, does not)
      kLineEnd,
      kMatch,
    };
    Kind kind = kMatch;
    uint32_t next = 0;
    uint32_t set = 0;
    uint32_t min = 1, max = 1;
    bool possessive = false, negated = false;
    std::vector<uint32_t> branches;
  };
  struct Search;

  uint32_t start_ = 0;
  std::vector<Node> nodes_;
  std::vector<Set> sets_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_SPLIT_PATTERN_H_
