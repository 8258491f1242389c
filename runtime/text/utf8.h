#ifndef ISOBIT_RUNTIME_TEXT_UTF8_H_
#define ISOBIT_RUNTIME_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace isobit {

// One step through bytes that may or may not be UTF-8 (RFC 3629: no overlong forms, no surrogates,
// nothing above U+10FFFF).
struct Utf8Step {
  enum Kind {
    kValid,       // `length` bytes are the character `point`
    kBroken,      // `length` bytes (1 to 3) begin no character: one U+FFFD stands for them
    kIncomplete,  // all `length` bytes of the input (1 to 3) are a proper beginning of a character
  };
  Kind kind;
  char32_t point;
  size_t length;
};

// Looks at the beginning of `bytes`, which must not be empty. Broken parts are the longest that
// could have begun a character ("maximal subparts", Unicode chapter 3), as Python and Rust take
// them.
Utf8Step StepUtf8(std::string_view bytes);

// Offset of the first byte that is not part of a whole valid character; the size if all is well.
size_t ValidUtf8Prefix(std::string_view bytes);

// Whether a character begins with this byte, in text that is valid UTF-8.
constexpr bool BeginsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// Characters of `text`, which is valid or a part of what is: those that begin in it.
int64_t CountCharacters(std::string_view text);

// Offset of the last character of `text`, which is valid and not empty.
size_t LastUtf8(std::string_view text);

void AppendUtf8(char32_t point, std::string* out);

// Bytes that AppendUtf8 writes for `point`.
constexpr size_t Utf8Length(char32_t point) {
  return point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
}

// Moves whole characters from the front of `bytes` to the end of `out`, U+FFFD in place of broken
// parts; an incomplete character stays in `bytes`.
void TakeWholeUtf8(std::string* bytes, std::string* out);

// What stands for broken bytes: U+FFFD in UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_UTF8_H_
