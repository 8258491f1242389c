#include "runtime/text/stop_strings.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace isobit {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> stop;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  return out << "{" << o.text << ", " << (o.stop ? static_cast<long>(*o.stop) : -1) << "}";
}

Outcome Find(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopStrings finder(stops);
  Outcome outcome;
  const auto add = [&](const StopStrings::Result& result) {
    EXPECT_FALSE(outcome.stop && (!result.text.empty() || result.stop_index)) << "stopped twice";
    outcome.text += result.text;
    if (result.stop_index) outcome.stop = result.stop_index;
    EXPECT_EQ(finder.stopped(), outcome.stop.has_value());
  };
  for (const std::string& piece : pieces) add(finder.Push(piece));
  add(finder.Finish());
  return outcome;
}

// The definition: earliest beginning, then list order, on the whole text.
Outcome Defined(const std::vector<std::string>& stops, const std::string& text) {
  Outcome outcome{text, std::nullopt};
  size_t best = std::string::npos;
  for (size_t i = 0; i < stops.size(); ++i) {
    const size_t at = stops[i].empty() ? std::string::npos : text.find(stops[i]);
    if (at < best) {
      best = at;
      outcome = {text.substr(0, at), i};
    }
  }
  return outcome;
}

TEST(StopStringsTest, FindsAcrossPieces) {
  EXPECT_EQ(Find({"\n\n"}, {"a\n", "b", "\n", "\n", "c"}), (Outcome{"a\nb", 0}));
  EXPECT_EQ(Find({"stop"}, {"st", "o"}), (Outcome{"sto", std::nullopt}));
  EXPECT_EQ(Find({}, {"a", "b"}), (Outcome{"ab", std::nullopt}));
  EXPECT_EQ(Find({""}, {"a", "b"}), (Outcome{"ab", std::nullopt}));
  EXPECT_EQ(Find({"", "b"}, {"ab"}), (Outcome{"a", 1})) << "indices are those of the caller's list";
}

TEST(StopStringsTest, EarliestBeginningWinsThenListOrder) {
  EXPECT_EQ(Find({"bc", "abcd"}, {"xabcd"}), (Outcome{"x", 1}));
  EXPECT_EQ(Find({"bc", "abcd"}, {"xabce"}), (Outcome{"xa", 0}));
  EXPECT_EQ(Find({"bc", "abcd"}, {"xabc"}), (Outcome{"xa", 0}))
      << "at the end the best match stands";
  EXPECT_EQ(Find({"ab", "abc"}, {"abc"}), (Outcome{"", 0}));
  EXPECT_EQ(Find({"abc", "ab"}, {"abc"}), (Outcome{"", 0}));
  EXPECT_EQ(Find({"abc", "ab"}, {"abd"}), (Outcome{"", 1}));
}

TEST(StopStringsTest, HoldsBackOnlyWhatMayBegin) {
  StopStrings finder({"<end>"});
  EXPECT_EQ(finder.Push("hello <").text, "hello ");
  EXPECT_EQ(finder.Push("e").text, "");
  EXPECT_EQ(finder.Push("x").text, "<ex");
  EXPECT_EQ(finder.Push("<<en").text, "<");
  const StopStrings::Result last = finder.Push("d>more");
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.stop_index, 0u);
  EXPECT_TRUE(finder.stopped());
  EXPECT_EQ(finder.Push("more").text, "");
  EXPECT_EQ(finder.Finish().text, "");
}

// However the text is cut, the outcome is the definition's.
TEST(StopStringsTest, CutsDoNotMatter) {
  std::mt19937 rng(8);
  int stopped = 0;
  for (int round = 0; round < 50000; ++round) {
    const auto word = [&](size_t longest) {
      std::string text(rng() % (longest + 1), 'a');
      for (char& c : text) c = static_cast<char>('a' + rng() % (1 + rng() % 3));
      return text;
    };
    std::vector<std::string> stops(rng() % 4);
    for (std::string& stop : stops) stop = word(5);
    const std::string text = word(24);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + rng() % 6;
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    const Outcome expected = Defined(stops, text);
    ASSERT_EQ(Find(stops, pieces), expected)
        << testing::PrintToString(stops) << " " << testing::PrintToString(pieces);
    stopped += expected.stop.has_value();
  }
  EXPECT_GT(stopped, 10000);
  EXPECT_LT(stopped, 45000);
}

}  // namespace
}  // namespace isobit
