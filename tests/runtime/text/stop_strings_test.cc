#include "runtime/text/stop_strings.h"

#include <optional>
#include <random>
#include <string>
#include <utility>
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

// The definition, on the whole text: earliest end, then earliest beginning, then list order.
Outcome Defined(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::pair<size_t, size_t>> best;  // beginning, place in the list
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t length = stops[i].size();
      if (length == 0 || length > end || text.compare(end - length, length, stops[i]) != 0)
        continue;
      const std::pair match(end - length, i);
      if (!best || match < *best) best = match;
    }
    if (best) return {text.substr(0, best->first), best->second};
  }
  return {text, std::nullopt};
}

TEST(StopStringsTest, FindsAcrossPieces) {
  EXPECT_EQ(Find({"\n\n"}, {"a\n", "b", "\n", "\n", "c"}), (Outcome{"a\nb", 0}));
  EXPECT_EQ(Find({"stop"}, {"st", "o"}), (Outcome{"sto", std::nullopt}));
  EXPECT_EQ(Find({}, {"a", "b"}), (Outcome{"ab", std::nullopt}));
  EXPECT_EQ(Find({""}, {"a", "b"}), (Outcome{"ab", std::nullopt}));
  EXPECT_EQ(Find({"", "b"}, {"ab"}), (Outcome{"a", 1})) << "indices are those of the caller's list";
}

TEST(StopStringsTest, EarliestEndWinsThenBeginningThenListOrder) {
  EXPECT_EQ(Find({"abcd", "bc"}, {"xabcd"}), (Outcome{"xa", 1}))
      << "no token is drawn after a stop";
  EXPECT_EQ(Find({"c", "abc"}, {"xabc"}), (Outcome{"x", 1}));
  EXPECT_EQ(Find({"abc", "ab"}, {"abc"}), (Outcome{"", 1}));
  EXPECT_EQ(Find({"ab", "ab"}, {"xab"}), (Outcome{"x", 0}));
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
