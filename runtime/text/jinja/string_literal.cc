#include "runtime/text/jinja/string_literal.h"

#include <cstddef>
#include <optional>

#include "runtime/text/jinja/errors.h"
#include "runtime/text/utf8.h"

namespace isobit::jinja {
namespace {

// What a one-letter escape stands for, or nothing.
std::optional<std::string_view> Simple(char c) {
  switch (c) {
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case 'r':
      return "\r";
    case 'a':
      return "\a";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'v':
      return "\v";
    case '\\':
      return "\\";
    case '\'':
      return "'";
    case '"':
      return "\"";
    case '\n':
      return "";
    default:
      return std::nullopt;
  }
}

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

// The leading digits of `text` to this base, at most `most` of them.
size_t TakeDigits(std::string_view text, char32_t base, size_t most, char32_t* value) {
  size_t count = 0;
  *value = 0;
  while (count < most && count < text.size()) {
    const auto digit = static_cast<char32_t>(DigitOf(text[count]));
    if (digit >= base) break;
    *value = *value * base + digit;
    ++count;
  }
  return count;
}

}  // namespace

absl::StatusOr<std::string> Unescape(std::string_view literal, int line) {
  std::string out;
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out += literal[i];
      continue;
    }
    const char c = literal[++i];
    if (const auto simple = Simple(c)) {
      out += *simple;
      continue;
    }
    char32_t point = 0;
    if (DigitOf(c) < 8) {
      i += TakeDigits(literal.substr(i), 8, 3, &point) - 1;
      AppendUtf8(point, &out);
      continue;
    }
    if (c == 'N') return Unsupported(line, "\\N{...}");
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      out += '\\';
      out += c;
      continue;
    }
    if (TakeDigits(literal.substr(i + 1), 16, digits, &point) < digits || point > 0x10FFFF ||
        (point >= 0xD800 && point <= 0xDFFF)) {
      return Error(line, absl::StrCat("a string has a bad escape \\", std::string(1, c)));
    }
    AppendUtf8(point, &out);
    i += digits;
  }
  return out;
}

}  // namespace isobit::jinja
