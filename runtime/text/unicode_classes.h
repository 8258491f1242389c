#ifndef ISOBIT_RUNTIME_TEXT_UNICODE_CLASSES_H_
#define ISOBIT_RUNTIME_TEXT_UNICODE_CLASSES_H_

#include <cstdint>

namespace isobit {

// The general category of a character, by its Unicode name. White space (the property White_Space)
// has classes of its own: the separators are all white, and so are six control characters.
enum class CharClass : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,  // letters: upper, lower, title case, modifier, other
  kMn,
  kMc,
  kMe,  // marks
  kNd,
  kNl,
  kNo,  // numbers: decimal digits, letters, other
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,  // punctuation
  kSm,
  kSc,
  kSk,
  kSo,            // symbols
  kSeparator,     // Zs, Zl, Zp
  kSpaceControl,  // U+0009 to U+000D, U+0085
  kCc,
  kCf,     // other control and format characters
  kOther,  // unassigned, private use, surrogates
};

// A set of classes: bit i is the class with number i.
using CharClasses = uint32_t;

constexpr CharClasses In(CharClass kind) { return CharClasses{1} << static_cast<int>(kind); }
constexpr CharClasses From(CharClass first, CharClass last) {
  return (In(last) - In(first)) | In(last);
}
inline constexpr CharClasses kLetters = From(CharClass::kLu, CharClass::kLo);      // \p{L}
inline constexpr CharClasses kMarks = From(CharClass::kMn, CharClass::kMe);        // \p{M}
inline constexpr CharClasses kNumbers = From(CharClass::kNd, CharClass::kNo);      // \p{N}
inline constexpr CharClasses kPunctuation = From(CharClass::kPc, CharClass::kPo);  // \p{P}
inline constexpr CharClasses kSymbols = From(CharClass::kSm, CharClass::kSo);      // \p{S}
inline constexpr CharClasses kSpaces = From(CharClass::kSeparator, CharClass::kSpaceControl);  // \s

constexpr bool IsIn(CharClass kind, CharClasses classes) { return (In(kind) & classes) != 0; }

// By Unicode 16.0, the version of Hugging Face's tokenizers 0.23. The tables are our own,
// so that token ids don't depend on the Unicode version of a system library.
CharClass ClassOf(char32_t point);

// \w as Rust's and most other regular expressions have it: letters, marks, decimal digits and
// letter numbers, connector punctuation, joiners, and the encircled letters.
bool IsWordChar(char32_t point);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_UNICODE_CLASSES_H_
