// A golden that no test reads protects nothing. golden/README.md says who reads each; this holds it
// to that.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace isobit {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = ISOBIT_SOURCE_DIR;

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first and the last column of the table: file, and the test that reads it.
std::map<std::string, std::string> ListedFiles(const std::string& readme) {
  std::map<std::string, std::string> listed;
  std::istringstream lines(readme);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const size_t file_end = line.find('`', 3);
    const size_t reader = line.rfind("| `", line.size() - 2);
    listed[line.substr(3, file_end - 3)] =
        line.substr(reader + 3, line.find('`', reader + 3) - reader - 3);
  }
  return listed;
}

// What a reader has to say to have named a file: its name, or for one of a series (ids_gpt-2.txt)
// the beginning of it, which it completes itself.
bool Names(const std::string& source, const fs::path& file) {
  const std::string name = file.filename().string();
  if (source.find(name) != std::string::npos) return true;
  const std::string series = name.substr(0, name.find('_') + 1);
  return !series.empty() && source.find("\"" + series + "\"") != std::string::npos;
}

bool IsGolden(const fs::path& file) {
  const std::string name = file.filename().string();
  return name != "README.md" && name != "CHANGES.md" && !name.starts_with("make_");
}

// Built by some CMakeLists.txt of the tests, or included by a source that is.
bool IsBuilt(const fs::path& reader) {
  if (reader.extension() == ".h") return true;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().filename() != "CMakeLists.txt") continue;
    const std::string stem = reader.stem().string();
    const std::string text = Read(entry.path());
    // A list may spare itself the ending: "foreach(test company memory ..." with ${test}_test.cc.
    if (text.find(stem) != std::string::npos) return true;
    const size_t suffix = stem.rfind("_test");
    if (suffix != std::string::npos &&
        entry.path().parent_path() == (kRoot / reader).parent_path() &&
        text.find(stem.substr(0, suffix)) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(Goldens, EveryFileIsReadByATest) {
  const std::map<std::string, std::string> listed = ListedFiles(Read(kRoot / "golden/README.md"));
  std::set<std::string> present;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "golden")) {
    if (!entry.is_regular_file() || !IsGolden(entry.path())) continue;
    present.insert(fs::relative(entry.path(), kRoot / "golden").generic_string());
  }
  EXPECT_GT(present.size(), 10u);
  for (const std::string& file : present) {
    EXPECT_TRUE(listed.contains(file)) << "golden/" << file << " is not in golden/README.md";
  }
  for (const auto& [file, reader] : listed) {
    EXPECT_TRUE(present.contains(file)) << "golden/" << file << " is listed but missing";
    const std::string source = Read(kRoot / reader);
    EXPECT_FALSE(source.empty()) << reader << ", reader of " << file << ", is missing";
    EXPECT_TRUE(reader.starts_with("tests/")) << reader;
    EXPECT_TRUE(Names(source, file)) << reader << " does not name " << file;
    EXPECT_TRUE(IsBuilt(reader)) << reader << " is in no CMakeLists.txt";
  }
}

TEST(Goldens, ReadersAreFound) {
  const auto listed = ListedFiles(
      "| file | made by | read by |\n|---|---|---|\n"
      "| `a/b.json` | `make_b.py` | `tests/b_test.cc` |\n| `c.bin` | by hand | `tests/c.h` |\n");
  EXPECT_EQ(listed, (std::map<std::string, std::string>{{"a/b.json", "tests/b_test.cc"},
                                                        {"c.bin", "tests/c.h"}}));
  EXPECT_TRUE(Names("Open(\"b.json\")", "a/b.json"));
  EXPECT_TRUE(Names("\"ids_\" + name", "text/ids_gpt-2.txt"));
  EXPECT_FALSE(Names("Open(\"c.json\")", "a/b.json"));
  EXPECT_FALSE(Names("\"ids_\" + name", "text/sums_gpt-2.txt"));
}

}  // namespace
}  // namespace isobit
