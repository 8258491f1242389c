#include "tools/isobit/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/tools/isobit/temp_folder.h"

namespace isobit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<Line> ReadAll(LineReader& reader) {
  std::vector<Line> lines;
  while (true) {
    while (std::optional<Line> line = reader.Next()) lines.push_back(*line);
    if (reader.at_end()) return lines;
    EXPECT_TRUE(reader.Fill().ok());
  }
}

std::vector<Line> LinesOf(std::string_view content, size_t max_line_bytes = 100) {
  const TempFolder folder;
  absl::StatusOr<LineReader> reader = LineReader::Open(folder.Write("in", content), max_line_bytes);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return ReadAll(*reader);
}

std::vector<std::string> TextsOf(std::string_view content) {
  std::vector<std::string> texts;
  for (const Line& line : LinesOf(content)) texts.push_back(line.text);
  return texts;
}

TEST(LineReader, SplitsLines) {
  EXPECT_THAT(TextsOf("a\nbc\n"), ElementsAre("a", "bc"));
  EXPECT_THAT(TextsOf("a\nbc"), ElementsAre("a", "bc"));
  EXPECT_THAT(TextsOf("a\r\nb\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(TextsOf(""), ElementsAre());
  EXPECT_THAT(TextsOf(std::string("a\0b\n", 4)), ElementsAre(std::string("a\0b", 3)));
}

TEST(LineReader, LeavesOutBlankLinesButCountsThem) {
  const std::vector<Line> lines = LinesOf("\n a\n\n \t\n\r\nb\n\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, " a");
  EXPECT_EQ(lines[0].number, 2);
  EXPECT_EQ(lines[1].text, "b");
  EXPECT_EQ(lines[1].number, 6);
}

TEST(LineReader, KnowsLengthsAndALastLineWithoutEnd) {
  const std::vector<Line> lines = LinesOf("abc\r\nde");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].bytes, 5u);
  EXPECT_TRUE(lines[0].terminated);
  EXPECT_EQ(lines[1].bytes, 2u);
  EXPECT_FALSE(lines[1].terminated);
}

TEST(LineReader, ReadsPastLinesThatAreTooLong) {
  for (const size_t length : {101, 65535, 65536, 65537, 300000}) {
    const std::vector<Line> lines =
        LinesOf("first\n" + std::string(length, 'x') + "\n" + std::string(100, 'y') + "\nlast");
    ASSERT_EQ(lines.size(), 4u) << length;
    EXPECT_FALSE(lines[0].too_long);
    EXPECT_TRUE(lines[1].too_long);
    EXPECT_EQ(lines[1].bytes, length + 1);
    EXPECT_EQ(lines[1].text, "");
    EXPECT_EQ(lines[1].number, 2);
    EXPECT_FALSE(lines[2].too_long) << "exactly the limit";
    EXPECT_EQ(lines[2].text, std::string(100, 'y'));
    EXPECT_EQ(lines[3].text, "last");
  }
}

TEST(LineReader, ALastLineThatIsTooLong) {
  const std::vector<Line> lines = LinesOf("a\n" + std::string(200000, 'x'));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[1].too_long);
  EXPECT_FALSE(lines[1].terminated);
  EXPECT_EQ(lines[1].bytes, 200000u);
}

// However the bytes arrive, the lines are the same; and a line is there as soon as its end is.
TEST(LineReader, TakesWhatAPipeGives) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  LineReader reader(ends[0], "pipe", 100);
  const auto send = [&](std::string_view text) {
    ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ASSERT_TRUE(reader.Fill().ok());
  };
  send("ab");
  EXPECT_FALSE(reader.Next().has_value());
  send("c\nd");
  EXPECT_EQ(reader.Next()->text, "abc");
  EXPECT_FALSE(reader.Next().has_value());
  send("\n\ne\n");
  EXPECT_EQ(reader.Next()->text, "d");
  EXPECT_EQ(reader.Next()->text, "e");
  close(ends[1]);
  ASSERT_TRUE(reader.Fill().ok());
  EXPECT_TRUE(reader.at_end());
  EXPECT_FALSE(reader.Next().has_value());
  close(ends[0]);
}

TEST(LineReader, LongInputGoesThroughInPieces) {
  std::string content;
  for (int i = 0; i < 50000; ++i) content += "line " + std::to_string(i) + "\n";
  const std::vector<Line> lines = LinesOf(content);
  ASSERT_EQ(lines.size(), 50000u);
  for (int i = 0; i < 50000; ++i) {
    ASSERT_EQ(lines[static_cast<size_t>(i)].text, "line " + std::to_string(i));
  }
}

TEST(LineReader, ErrorsNameThePath) {
  EXPECT_THAT(std::string(LineReader::Open("/nowhere/in", 10).status().message()),
              AllOf(HasSubstr("/nowhere/in"), HasSubstr("No such file")));
  absl::StatusOr<LineReader> folder = LineReader::Open("/", 10);
  ASSERT_TRUE(folder.ok());
  EXPECT_THAT(std::string(folder->Fill().message()),
              AllOf(HasSubstr("cannot read /"), HasSubstr("directory")));
  EXPECT_TRUE(folder->at_end()) << "else a caller would ask for ever";
}

}  // namespace
}  // namespace isobit
