#include "runtime/text/pretokenizer_rules.h"

#include <algorithm>
#include <string_view>

namespace isobit::pretokenizer_internal {
namespace {

bool IsLetter(const ClassedChar& c) { return IsIn(c.kind, kLetters); }
bool IsNumber(const ClassedChar& c) { return IsIn(c.kind, kNumbers); }
bool IsSpace(const ClassedChar& c) { return IsIn(c.kind, kSpaces); }
bool IsSymbol(const ClassedChar& c) { return !IsIn(c.kind, kSpaces | kLetters | kNumbers); }
bool IsNewline(const ClassedChar& c) { return c.point == '\r' || c.point == '\n'; }

// Length of the run of characters from `from` on that satisfy `is`.
template <typename Predicate>
size_t Run(Chars chars, size_t from, Predicate is) {
  size_t end = from;
  while (end < chars.size() && is(chars[end])) ++end;
  return end - from;
}

// Length of an English contraction at the beginning, or 0. `fold` maps letters to lower case.
template <typename Fold>
size_t Contraction(Chars chars, Fold fold) {
  if (chars[0].point != '\'' || chars.size() < 2) return 0;
  const char32_t first = fold(chars[1].point);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (chars.size() < 3) return 0;
  const char32_t second = fold(chars[2].point);
  if ((first == 'r' || first == 'v') && second == 'e') return 3;
  if (first == 'l' && second == 'l') return 3;
  return 0;
}

char32_t AsIs(char32_t point) { return point; }

// Simple case folding of the letters that contractions use. U+017F, the long s, folds to s too.
char32_t FoldCase(char32_t point) {
  if (point >= 'A' && point <= 'Z') return point - 'A' + 'a';
  return point == 0x17F ? U's' : point;
}

//   \s+(?!\S)|\s+     for a run of `length` spaces at the beginning: the last of several spaces is
// left to the word that follows.
size_t SpacesBeforeWord(Chars chars, size_t length) {
  return length > 1 && length < chars.size() ? length - 1 : length;
}

// The expression that Llama 3 and Qwen 2 share, with numbers of at most `digits`.
size_t Llama3Style(Chars chars, size_t digits) {
  if (const size_t n = Contraction(chars, FoldCase); n > 0) return n;
  // [^\r\n\p{L}\p{N}]?\p{L}+
  if (const size_t n = Run(chars, 0, IsLetter); n > 0) return n;
  if (!IsNewline(chars[0]) && !IsNumber(chars[0])) {
    if (const size_t n = Run(chars, 1, IsLetter); n > 0) return 1 + n;
  }
  // \p{N}{1,digits}
  if (IsNumber(chars[0])) return Run(chars.first(std::min(digits, chars.size())), 0, IsNumber);
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  const size_t space = chars[0].point == ' ' ? 1 : 0;
  if (const size_t n = Run(chars, space, IsSymbol); n > 0) {
    return space + n + Run(chars, space + n, IsNewline);
  }
  // \s*[\r\n]+ : up to the last line break of the run of spaces.
  const size_t spaces = Run(chars, 0, IsSpace);
  for (size_t end = spaces; end > 0; --end) {
    if (IsNewline(chars[end - 1])) return end;
  }
  return SpacesBeforeWord(chars, spaces);
}

}  // namespace

size_t Gpt2(Chars chars) {
  if (const size_t n = Contraction(chars, AsIs); n > 0) return n;
  const size_t space = chars[0].point == ' ' ? 1 : 0;
  if (const size_t n = Run(chars, space, IsLetter); n > 0) return space + n;
  if (const size_t n = Run(chars, space, IsNumber); n > 0) return space + n;
  if (const size_t n = Run(chars, space, IsSymbol); n > 0) return space + n;
  return SpacesBeforeWord(chars, Run(chars, 0, IsSpace));
}

size_t Llama3(Chars chars) { return Llama3Style(chars, 3); }

size_t Qwen2(Chars chars) { return Llama3Style(chars, 1); }

Rule RuleFor(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return Gpt2;
  if (pattern == kLlama3Pattern) return Llama3;
  if (pattern == kQwen2Pattern) return Qwen2;
  return nullptr;
}

}  // namespace isobit::pretokenizer_internal
