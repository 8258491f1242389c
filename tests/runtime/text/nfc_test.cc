#include "runtime/text/nfc.h"

#include <utf8proc.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

TEST(NfcTest, EqualsPythonsUnicodedata) {
  std::ifstream in(ISOBIT_SOURCE_DIR "/golden/text/nfc.json");
  const auto pairs =
      nlohmann::json::parse(in).get<std::vector<std::pair<std::string, std::string>>>();
  ASSERT_GT(pairs.size(), 500u);
  for (const auto& [text, expected] : pairs) {
    const auto got = ToNfc(text);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(*got, expected) << nlohmann::json(text).dump(-1, ' ', true);
    EXPECT_EQ(ToNfc(*got).value(), *got) << "NFC of NFC is itself";
  }
}

// Every single character, against utf8proc's own one-step function.
TEST(NfcTest, EveryCharacter) {
  int changed = 0;
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point == 0xD800) point = 0xE000;
    std::string text;
    AppendUtf8(point, &text);
    utf8proc_uint8_t* expected = nullptr;
    const auto length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &expected,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    ASSERT_GE(length, 0);
    const std::string wanted(reinterpret_cast<char*>(expected), static_cast<size_t>(length));
    std::free(expected);
    const std::string got = ToNfc(text).value();
    ASSERT_EQ(got, wanted) << std::hex << static_cast<uint32_t>(point);
    changed += got != text;
  }
  EXPECT_GT(changed, 1000);
}

// 200,000 marks in the order that an insertion sort likes least.
TEST(NfcTest, LongRunsOfMarksStayFast) {
  std::string text = "a", expected;
  for (int i = 0; i < 100000; ++i) text += "\xCC\x81\xCC\xA7";  // class 230, class 202
  const auto begin = std::chrono::steady_clock::now();
  const auto got = ToNfc(text);
  const auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(got.ok());
  expected = "\xC3\xA1";  // a with acute: the first mark of class 230 is not blocked by the 202s
  for (int i = 0; i < 100000; ++i) expected += "\xCC\xA7";
  for (int i = 0; i < 99999; ++i) expected += "\xCC\x81";
  EXPECT_EQ(*got, expected);
  EXPECT_LT(std::chrono::duration<double>(took).count(), 2.0);
}

}  // namespace
}  // namespace isobit
