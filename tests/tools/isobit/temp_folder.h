#ifndef ISOBIT_TESTS_TOOLS_ISOBIT_TEMP_FOLDER_H_
#define ISOBIT_TESTS_TOOLS_ISOBIT_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace isobit {

// A folder of one test, removed at its end.
class TempFolder {
 public:
  // `suffix` tells folders of one test apart.
  explicit TempFolder(const std::string& suffix = "") {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name() + suffix;
    std::replace(name.begin(), name.end(), '/', '.');  // of a parameter
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("isobit." + std::to_string(getpid()) + "." + name);
    std::filesystem::create_directories(folder_);
  }
  ~TempFolder() { std::filesystem::remove_all(folder_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return folder_.string(); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // Writes a file and returns its path.
  std::string Write(const std::string& name, std::string_view content) const {
    std::ofstream(Path(name), std::ios::binary) << content;
    return Path(name);
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_TOOLS_ISOBIT_TEMP_FOLDER_H_
