#include "runtime/json/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <string>

namespace isobit {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const absl::StatusOr<json> value = ParseStrictJson(text);
  if (value.ok()) return "";
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(value.status().message());
}

TEST(StrictJson, BuildsTheDocument) {
  const std::string text =
      R"({"a": [1, -2, 2.5, true, null, "x\u00e9\n"], "b": {"c": [], "d": {}}, "e": ""})";
  const absl::StatusOr<json> value = ParseStrictJson(text);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, json::parse(text));
}

TEST(StrictJson, EveryKindOfValueAtTheTop) {
  for (const char* text : {"null", "true", "-7", "1.5", "\"x\"", "[]", "{}", " [1] "}) {
    const absl::StatusOr<json> value = ParseStrictJson(text);
    ASSERT_TRUE(value.ok()) << text << ": " << value.status();
    EXPECT_EQ(*value, json::parse(text));
  }
}

TEST(StrictJson, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "}",
                           "[1,]",
                           "{\"a\":}",
                           "{\"a\" 1}",
                           "{a: 1}",
                           "'x'",
                           "NaN",
                           "[Infinity]",
                           "01",
                           "+1",
                           "1.",
                           ".5",
                           "1e",
                           "tru",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"a\nb\"",
                           "1 2",
                           "{} {}",
                           "// comment\n1",
                           "[1] trailing",
                           "1e999",
                           "-1e999"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("not valid JSON at byte")) << text;
  }
}

TEST(StrictJson, AnErrorSaysWhereAndWhy) {
  EXPECT_THAT(ErrorOf(R"({"id": "broken", "prompt": "x")"),
              AllOf(HasSubstr("byte 31"), HasSubstr("unexpected end of input")));
  EXPECT_THAT(ErrorOf("{\"p\":\"\xff\xfe\"}"),
              AllOf(HasSubstr("byte 7"), HasSubstr("ill-formed UTF-8")));
  EXPECT_THAT(ErrorOf(R"({"t": NaN})"), HasSubstr("invalid literal"));
}

TEST(StrictJson, AnErrorNeverQuotesTheInput) {
  const std::string long_text = "\"" + std::string(100000, 'x') + "\xff\"";
  EXPECT_LT(ErrorOf(long_text).size(), 200u);
}

TEST(StrictJson, RefusesInvalidUtf8) {
  for (const char* bytes : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_THAT(ErrorOf("[\"" + std::string(bytes) + "\"]"), HasSubstr("ill-formed UTF-8"));
  }
}

TEST(StrictJson, RefusesTheSameNameTwice) {
  EXPECT_EQ(ErrorOf(R"({"seed": 1, "n": 1, "seed": 1})"),
            "\"seed\" stands twice in the same object");
  EXPECT_EQ(ErrorOf(R"({"a": {"x": 1, "x": 2}})"), "\"x\" stands twice in the same object");
  EXPECT_EQ(ErrorOf(R"([{"x": 1}, {"x": 2}])"), "");
}

TEST(StrictJson, BoundsDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_EQ(ErrorOf(nested(kMaxJsonDepth)), "");
  EXPECT_THAT(ErrorOf(nested(kMaxJsonDepth + 1)), HasSubstr("nested deeper than 64"));
}

TEST(StrictJson, ABombOfBracketsIsAnError) {
  constexpr size_t kDepth = 1000000;
  EXPECT_THAT(ErrorOf(std::string(kDepth, '[')), HasSubstr("nested deeper"));
  std::string objects;
  for (size_t i = 0; i < kDepth; ++i) objects += "{\"a\":";
  EXPECT_THAT(ErrorOf(objects), HasSubstr("nested deeper"));
  EXPECT_THAT(ErrorOf("{\"id\":\"deep\",\"prompt\":" + std::string(100000, '[') + "}"),
              HasSubstr("nested deeper"));
}

TEST(StrictJson, WideDocumentsKeepTheirValues) {
  std::string text = "[[0]";
  for (int i = 1; i < 3000; ++i) text += ",{\"k\":[" + std::to_string(i) + "]}";
  text += "]";
  const absl::StatusOr<json> value = ParseStrictJson(text);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(*value, json::parse(text));
}

// ---- In the order of the text

std::string OrderedErrorOf(std::string_view text) {
  return std::string(ParseStrictJsonInOrder(text).status().message());
}

TEST(StrictJsonInOrder, KeepsTheOrderOfMembers) {
  for (const char* text :
       {R"({"b":1,"a":{"d":[{"z":null,"y":true}],"c":-2.5},"":"x"})", "[]", "7", "\"x\""}) {
    const absl::StatusOr<nlohmann::ordered_json> value = ParseStrictJsonInOrder(text);
    ASSERT_TRUE(value.ok()) << text << ": " << value.status();
    EXPECT_EQ(value->dump(), text);
  }
}

TEST(StrictJsonInOrder, RefusesTheSame) {
  for (const char* text : {"", "{\"a\":}", "[1,]", "{} {}", "1e999", "[\"\xff\"]",
                           R"({"a":1,"a":1})", R"({"a":{"x":1,"y":{},"x":2}})"}) {
    EXPECT_EQ(OrderedErrorOf(text), ErrorOf(text)) << text;
    EXPECT_NE(OrderedErrorOf(text), "") << text;
  }
  EXPECT_EQ(OrderedErrorOf(R"({"x":{"x":1},"y":[{"x":1},{"x":2}]})"), "");
  EXPECT_THAT(OrderedErrorOf(std::string(100000, '[')), HasSubstr("nested deeper than 64"));
}

// What compares each name with all before it takes 20,000,000,000 comparisons here, minutes.
TEST(StrictJsonInOrder, ManyMembersTakeALinearTime) {
  constexpr int kMembers = 200000;
  std::string text = "{\"m0\":0";
  for (int i = 1; i < kMembers; ++i) {
    text += ",\"m" + std::to_string(i) + "\":" + std::to_string(i);
  }
  const std::clock_t begin = std::clock();
  const absl::StatusOr<nlohmann::ordered_json> value = ParseStrictJsonInOrder(text + "}");
  const std::string twice = OrderedErrorOf(text + ",\"m77777\":1}");
  const std::clock_t end = std::clock();
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->dump(), text + "}");
  EXPECT_EQ(twice, "\"m77777\" stands twice in the same object");
  EXPECT_LT(static_cast<double>(end - begin) / CLOCKS_PER_SEC, 5.0);
}

// ---- Readers

template <typename T>
std::string ReadError(const char* text) {
  T out{};
  const absl::Status status = ReadJson(json::parse(text), "field", out);
  return std::string(status.message());
}

template <typename T>
T ReadValue(const char* text) {
  T out{};
  const absl::Status status = ReadJson(json::parse(text), "field", out);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(ReadJson, Integers) {
  EXPECT_EQ(ReadValue<int32_t>("-2147483648"), INT32_MIN);
  EXPECT_EQ(ReadValue<int32_t>("2147483647"), INT32_MAX);
  EXPECT_EQ(ReadValue<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(ReadValue<int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(ReadValue<uint64_t>("18446744073709551615"), UINT64_MAX);
}

TEST(ReadJson, IntegersThatDoNotFit) {
  EXPECT_EQ(ReadError<int32_t>("2147483648"),
            "field must be an integer from -2147483648 to 2147483647, got 2147483648");
  EXPECT_EQ(ReadError<uint64_t>("-1"),
            "field must be an integer from 0 to 18446744073709551615, got -1");
  // Beyond 64 bits a number is a floating-point one, and refused as such.
  EXPECT_THAT(ReadError<uint64_t>("18446744073709551616"), HasSubstr("field must be an integer"));
  EXPECT_THAT(ReadError<int64_t>("9223372036854775808"), HasSubstr("field must be an integer"));
  EXPECT_THAT(ReadError<int64_t>("-9223372036854775809"), HasSubstr("field must be an integer"));
}

TEST(ReadJson, IntegersAreNotRounded) {
  EXPECT_THAT(ReadError<int64_t>("1.5"), HasSubstr("got 1.5"));
  EXPECT_THAT(ReadError<int64_t>("1.0"), HasSubstr("got 1.0"));
  EXPECT_THAT(ReadError<int64_t>("true"), HasSubstr("got true"));
  EXPECT_THAT(ReadError<int64_t>("\"1\""), HasSubstr("got \"1\""));
  EXPECT_THAT(ReadError<int64_t>("null"), HasSubstr("got null"));
}

TEST(ReadJson, OtherTypes) {
  EXPECT_EQ(ReadValue<double>("3"), 3.0);
  EXPECT_EQ(ReadValue<double>("0.1"), 0.1);
  EXPECT_EQ(ReadError<double>("\"1\""), "field must be a number, got \"1\"");
  EXPECT_EQ(ReadError<bool>("1"), "field must be true or false, got 1");
  EXPECT_EQ(ReadError<std::string>("1"), "field must be a string, got 1");
  EXPECT_EQ(ReadError<std::string>("[1, 2]"), "field must be a string, got an array of 2");
  EXPECT_EQ(ReadError<std::string>("{}"), "field must be a string, got an object");
}

TEST(ReadJson, OptionalsTakeNull) {
  EXPECT_EQ(ReadValue<std::optional<int64_t>>("null"), std::nullopt);
  EXPECT_EQ(ReadValue<std::optional<int64_t>>("5"), 5);
  EXPECT_THAT(ReadError<std::optional<int64_t>>("\"x\""), HasSubstr("field must be an integer"));
}

TEST(ReadJson, TokenIds) {
  EXPECT_EQ(ReadValue<std::vector<int32_t>>("[0, 5, 2147483647]"),
            (std::vector<int32_t>{0, 5, 2147483647}));
  EXPECT_EQ(ReadError<std::vector<int32_t>>("[0, 1.5]"),
            "field[1] must be a token id, an integer from 0 to 2147483647, got 1.5");
  EXPECT_THAT(ReadError<std::vector<int32_t>>("[2147483648]"), HasSubstr("field[0]"));
  EXPECT_THAT(ReadError<std::vector<int32_t>>("7"), HasSubstr("field must be an array"));
}

TEST(DescribeJson, IsShortAndAscii) {
  EXPECT_EQ(DescribeJson(json(std::string(1000, 'x'))), "a string of 1000 bytes");
  EXPECT_EQ(DescribeJson(json("\xc3\xa9")), "\"\\u00e9\"");
  EXPECT_EQ(DescribeJson(json("\xff")), "\"\\ufffd\"");
}

}  // namespace
}  // namespace isobit
