#include "runtime/text/unicode_classes.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace isobit {
namespace {

struct Range {
  char32_t first, last;
  CharClass kind;
};

constexpr CharClass L = CharClass::kLetter, N = CharClass::kNumber, P = CharClass::kPunctuation,
                    S = CharClass::kSpace;

constexpr Range kRanges[] = {
#include "runtime/text/unicode_ranges.inc"
};

constexpr CharClass Find(char32_t point) {
  const Range* range = std::upper_bound(
      std::begin(kRanges), std::end(kRanges), point,
      [](char32_t wanted, const Range& candidate) { return wanted < candidate.first; });
  if (range == std::begin(kRanges) || point > (--range)->last) return CharClass::kOther;
  return range->kind;
}

// Latin text is nearly all of most prompts.
constexpr size_t kDirect = 0x250;
constexpr auto kDirectClasses = [] {
  std::array<CharClass, kDirect> classes{};
  for (size_t i = 0; i < kDirect; ++i) classes[i] = Find(static_cast<char32_t>(i));
  return classes;
}();

}  // namespace

CharClass ClassOf(char32_t point) { return point < kDirect ? kDirectClasses[point] : Find(point); }

}  // namespace isobit
