#include "runtime/api/json_writer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "nlohmann/json.hpp"

namespace isobit {
namespace {

using nlohmann::json;

std::string Print(auto value) { return JsonWriter().Value(value).Take(); }

TEST(JsonWriter, KeepsTheOrderOfFields) {
  JsonWriter out;
  out.BeginObject().Field("z", 1).Field("a", "x");
  out.Key("list").BeginArray().Value(true).Null().BeginObject().EndObject().EndArray();
  out.Field("none", std::optional<int>()).Field("some", std::optional<int>(3));
  out.Field("ids", std::vector<int32_t>{1, 2}).Field("empty", std::vector<int32_t>{});
  EXPECT_EQ(out.EndObject().Take(),
            R"({"z":1,"a":"x","list":[true,null,{}],"none":null,"some":3,"ids":[1,2],"empty":[]})");
}

TEST(JsonWriter, Integers) {
  EXPECT_EQ(Print(std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(Print(std::numeric_limits<uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(Print(int32_t{-1}), "-1");
}

TEST(JsonWriter, FloatsAreShortAndLookLikeFloats) {
  EXPECT_EQ(Print(0.1f), "0.1");
  EXPECT_EQ(Print(0.1), "0.1");
  EXPECT_EQ(Print(-3.0f), "-3.0");
  EXPECT_EQ(Print(0.0f), "0.0");
  EXPECT_EQ(Print(-0.0f), "-0.0");
  EXPECT_EQ(Print(1e30f), "1e+30");
  EXPECT_EQ(Print(std::numeric_limits<float>::infinity()), "null");
  EXPECT_EQ(Print(-std::numeric_limits<float>::infinity()), "null");
  EXPECT_EQ(Print(std::numeric_limits<double>::quiet_NaN()), "null");
}

// Readers of JSON go through double. Every kind of fp32 must survive that.
TEST(JsonWriter, FloatsComeBackBitForBitThroughDouble) {
  std::mt19937 random(1);
  int compared = 0;
  for (int i = 0; i < 200000; ++i) {
    const uint32_t bits = random();
    const auto value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) continue;
    const std::string text = Print(value);
    const auto back = static_cast<float>(json::parse(text).get<double>());
    ASSERT_EQ(std::bit_cast<uint32_t>(back), bits) << text;
    ++compared;
  }
  EXPECT_GT(compared, 190000);
}

// The values that occur: all log-probabilities of one binade, and the smallest numbers.
TEST(JsonWriter, NeighboursAndSubnormalsComeBack) {
  for (const uint32_t first : {0x00000000u, 0x00800000u - 20000u, 0xbf800000u, 0xc1200000u}) {
    for (uint32_t bits = first; bits < first + 40000; ++bits) {
      const auto value = std::bit_cast<float>(bits);
      const auto back = static_cast<float>(json::parse(Print(value)).get<double>());
      ASSERT_EQ(std::bit_cast<uint32_t>(back), bits);
    }
  }
}

TEST(JsonWriter, DoublesComeBackBitForBit) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(json::parse(Print(value)).get<double>(), value);
  }
}

TEST(JsonWriter, TextIsEscapedAndAlwaysUtf8) {
  EXPECT_EQ(Print("a\"b\\c\n\x01\x7f"), "\"a\\\"b\\\\c\\n\\u0001\x7f\"");
  EXPECT_EQ(Print("caf\xc3\xa9 \xf0\x9f\x98\x80"), "\"caf\xc3\xa9 \xf0\x9f\x98\x80\"");
  EXPECT_EQ(Print("x\xff y"), "\"x\xef\xbf\xbd y\"");
  EXPECT_EQ(Print(std::string("a\0b", 3)), "\"a\\u0000b\"");
}

}  // namespace
}  // namespace isobit
