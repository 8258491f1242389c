#include "runtime/text/utf8.h"

#include <algorithm>

namespace isobit {

Utf8Step StepUtf8(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {Utf8Step::kValid, first, 1};
  // Table 3-7 of the Unicode standard: the second byte's range depends on the first.
  size_t length = 0;
  uint8_t low = 0x80, high = 0xBF;
  char32_t point = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    point = first & 0x1Fu;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    point = first & 0x0Fu;
    if (first == 0xE0) low = 0xA0;   // shorter forms exist
    if (first == 0xED) high = 0x9F;  // surrogates
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    point = first & 0x07u;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;  // above U+10FFFF
  } else {
    return {Utf8Step::kBroken, 0, 1};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Utf8Step::kIncomplete, 0, i};
    if (byte(i) < low || byte(i) > high) return {Utf8Step::kBroken, 0, i};
    point = point << 6 | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Step::kValid, point, length};
}

size_t ValidUtf8Prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = StepUtf8(bytes.substr(at));
    if (step.kind != Utf8Step::kValid) break;
    at += step.length;
  }
  return at;
}

int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(text, BeginsCharacter);
}

size_t LastUtf8(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && !BeginsCharacter(text[begin])) --begin;
  return begin;
}

void AppendUtf8(char32_t point, std::string* out) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { put(0x80 | (point >> shift & 0x3F)); };
  switch (Utf8Length(point)) {
    case 1:
      put(point);
      return;
    case 2:
      put(0xC0 | point >> 6);
      break;
    case 3:
      put(0xE0 | point >> 12);
      tail(6);
      break;
    default:
      put(0xF0 | point >> 18);
      tail(12);
      tail(6);
  }
  tail(0);
}

void TakeWholeUtf8(std::string* bytes, std::string* out) {
  size_t at = 0;
  while (at < bytes->size()) {
    const Utf8Step step = StepUtf8(std::string_view(*bytes).substr(at));
    if (step.kind == Utf8Step::kIncomplete) break;
    if (step.kind == Utf8Step::kValid) {
      out->append(*bytes, at, step.length);
    } else {
      out->append(kReplacement);
    }
    at += step.length;
  }
  bytes->erase(0, at);
}

}  // namespace isobit
