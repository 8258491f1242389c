#include "runtime/text/utf8.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/text/byte_alphabet.h"

namespace isobit {
namespace {

std::string Encoded(char32_t point) {
  std::string out;
  AppendUtf8(point, &out);
  return out;
}

TEST(Utf8Test, CharactersAreCountedWhereTheyBegin) {
  const std::string text = "a\u00e9\u20ac\U0001F600";
  EXPECT_EQ(CountCharacters(""), 0);
  EXPECT_EQ(CountCharacters(text), 4);
  EXPECT_EQ(CountCharacters(text.substr(2)), 2);  // the rest of one, and two
  EXPECT_EQ(CountCharacters("\x80\xBF"), 0);
}

TEST(Utf8Test, EveryCharacterComesBack) {
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point == 0xD800) point = 0xE000;
    const std::string bytes = Encoded(point);
    ASSERT_EQ(bytes.size(), Utf8Length(point));
    const Utf8Step step = StepUtf8(bytes + "x");
    ASSERT_EQ(step.kind, Utf8Step::kValid) << std::hex << uint32_t{point};
    ASSERT_EQ(step.point, point);
    ASSERT_EQ(step.length, bytes.size());
    // Every proper beginning is incomplete, and broken if something else follows.
    for (size_t n = 1; n < bytes.size(); ++n) {
      const Utf8Step part = StepUtf8(bytes.substr(0, n));
      ASSERT_EQ(part.kind, Utf8Step::kIncomplete);
      ASSERT_EQ(part.length, n);
      const Utf8Step broken = StepUtf8(bytes.substr(0, n) + "x");
      ASSERT_EQ(broken.kind, Utf8Step::kBroken);
      ASSERT_EQ(broken.length, n);
    }
  }
}

// What Python's decode(errors="replace") makes of broken bytes; {input, output}.
TEST(Utf8Test, BrokenPartsAreReplacedAsPythonDoes) {
  const std::string r(kReplacement);
  const std::pair<std::string, std::string> kCases[] = {
      {"\x80", r},
      {"a\xFFz", "a" + r + "z"},
      {"\xC0\x80", r + r},                  // overlong
      {"\xE0\x80\x80", r + r + r},          // overlong
      {"\xF0\x80\x80\x80", r + r + r + r},  // overlong
      {"\xED\xA0\x80", r + r + r},          // a surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},  // above U+10FFFF
      {"\xF5\x80\x80\x80", r + r + r + r},
      {"\xE2\x82", r},
      {"\xE2\x82z", r + "z"},
      {"\xF0\x9F\x99", r},
      {"\xF0\x9F\x99\xF0\x9F\x99\x82", r + "\xF0\x9F\x99\x82"},
      {"\xE2\xE2\x82\xAC", r + "\xE2\x82\xAC"},
      {"\xC3\xA9\xC3", "\xC3\xA9" + r},
  };
  for (const auto& [input, output] : kCases) {
    std::string held = input, text;
    TakeWholeUtf8(&held, &text);
    if (!held.empty()) text += r;
    EXPECT_EQ(text, output) << testing::PrintToString(input);
    EXPECT_LT(ValidUtf8Prefix(input), input.size());
  }
}

TEST(Utf8Test, OffsetOfTheFirstBrokenByte) {
  EXPECT_EQ(ValidUtf8Prefix(""), 0u);
  EXPECT_EQ(ValidUtf8Prefix("h\xC3\xA9"), 3u);
  EXPECT_EQ(ValidUtf8Prefix("h\xC3\xA9\xFFx"), 3u);
  EXPECT_EQ(ValidUtf8Prefix("h\xC3"), 1u) << "an incomplete end is not valid";
  EXPECT_EQ(ValidUtf8Prefix(std::string_view("\0", 1)), 1u);
}

TEST(ByteAlphabetTest, IsOneToOne) {
  std::string all, bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = Encoded(ByteAlphabetChar(static_cast<unsigned char>(byte)));
    ASSERT_TRUE(FromByteAlphabet(text, &bytes));
    ASSERT_EQ(bytes, std::string(1, static_cast<char>(byte)));
    all += text;
  }
  ASSERT_TRUE(FromByteAlphabet(all, &bytes));
  EXPECT_EQ(bytes.size(), 256u);
  EXPECT_EQ(Encoded(ByteAlphabetChar(' ')), "\xC4\xA0");  // GPT-2's way to write a space
  EXPECT_EQ(Encoded(ByteAlphabetChar('\n')), "\xC4\x8A");
}

TEST(ByteAlphabetTest, OtherTextIsRefused) {
  std::string bytes;
  for (const char* text :
       {" ", "\n", "\xC2\x80", "\xC2\xAD", "\xC5\x84", "\xE4\xB8\xAD", "a\xFF", "a\xC4"}) {
    EXPECT_FALSE(FromByteAlphabet(text, &bytes)) << testing::PrintToString(std::string(text));
  }
  EXPECT_TRUE(FromByteAlphabet("", &bytes));
  EXPECT_TRUE(FromByteAlphabet("\xC5\x83", &bytes)) << "U+0143 is the last, for byte 0xAD";
  EXPECT_EQ(bytes, "\xAD");
}

}  // namespace
}  // namespace isobit
