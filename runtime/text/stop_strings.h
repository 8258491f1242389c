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
// The answer depends on the whole text only, never on how it was cut: the match that ends first
// wins, so that no token is drawn after a stop is there. Of those that end at the same place it is
// the one that begins first, then the one that comes first in the list.
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

  // Takes more text: whole UTF-8 characters if the stops are, so that what is returned is too.
  // After a stop was found, further text is ignored.
  Result Push(std::string_view text);

  // No more text will come: releases what was held back.
  Result Finish();

  bool stopped() const { return stopped_; }

 private:
  struct Pattern {
    std::string text;
    size_t index;                // in the caller's list
    std::vector<size_t> border;  // of the first i bytes: length of the longest proper prefix that
                                 // is also a suffix (Knuth, Morris, Pratt)
    size_t matched = 0;          // the longest prefix of `text` that ends the text seen so far
  };
  struct Match {
    size_t begin;    // offset in the whole text
    size_t pattern;  // position in patterns_, which is list order
    bool operator<(const Match& other) const {
      return begin != other.begin ? begin < other.begin : pattern < other.pattern;
    }
  };

  std::optional<Match> Take(char c);  // the best match that ends with this character
  std::string Release(size_t until);  // held text in front of this offset of the whole text

  std::vector<Pattern> patterns_;
  std::string held_;  // the end of the text seen so far, not yet returned
  size_t seen_ = 0;   // length of the text seen so far
  bool stopped_ = false;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_STOP_STRINGS_H_
