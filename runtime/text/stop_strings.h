#ifndef ISOBIT_RUNTIME_TEXT_STOP_STRINGS_H_
#define ISOBIT_RUNTIME_TEXT_STOP_STRINGS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobit {

// Finds the first stop string in text that arrives in pieces, across the borders of pieces.
//
// The answer depends on the whole text only, never on how it was cut: the match that begins
// earliest wins, and of matches that begin at the same place the one that comes first in the list.
// So a shorter match is not reported while an earlier-beginning or higher-listed one may still be
// completed by text to come.
//
// Not thread-safe; one object a completion. Time O(number of stops) amortised a byte; memory
// O(total length of the stops).
class StopStrings {
 public:
  // Empty stop strings are ignored.
  explicit StopStrings(const std::vector<std::string>& stops);

  struct Result {
    std::string text;                  // text now known to lie before any stop
    std::optional<size_t> stop_index;  // set once: which of `stops` ended the text
  };

  // Takes more text. After a stop was found, further text is ignored.
  Result Push(std::string_view text);

  // No more text will come: releases what was held back, unless a match in it stands now.
  Result Finish();

  bool stopped() const { return stopped_.has_value(); }

 private:
  struct Pattern {
    std::string text;
    size_t index;                // in the caller's list
    std::vector<size_t> border;  // Knuth-Morris-Pratt failure function
    size_t matched = 0;          // length of the longest prefix that ends the text seen so far
  };
  struct Match {
    size_t begin;  // offset in the whole text
    size_t order;  // position in patterns_
  };

  // Removes and returns held text in front of `end`; everything before is final.
  std::string TakeUntil(size_t end);
  Result Settle(bool at_end);

  std::vector<Pattern> patterns_;  // in list order
  std::string held_;               // text not yet returned
  size_t held_begin_ = 0;          // its offset in the whole text
  size_t seen_ = 0;                // length of the whole text
  std::optional<Match> best_;
  std::optional<size_t> stopped_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_STOP_STRINGS_H_
