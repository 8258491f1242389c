#include "runtime/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "runtime/text/utf8.h"

namespace isobit {
namespace {

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr auto kChars = [] {
  std::array<char32_t, 256> chars{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    chars[static_cast<size_t>(byte)] = IsPrintable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return chars;
}();

constexpr size_t kAlphabetEnd = 0x100 + 68;  // 68 bytes are not printable

constexpr auto kBytes = [] {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) bytes[kChars[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

}  // namespace

bool FromByteAlphabet(std::string_view text, std::string* bytes) {
  bytes->clear();
  while (!text.empty()) {
    const Utf8Step step = StepUtf8(text);
    if (step.kind != Utf8Step::kValid) return false;
    if (step.point >= kAlphabetEnd || kBytes[step.point] < 0) return false;
    bytes->push_back(static_cast<char>(kBytes[step.point]));
    text.remove_prefix(step.length);
  }
  return true;
}

char32_t ByteAlphabetChar(unsigned char byte) { return kChars[byte]; }

}  // namespace isobit
