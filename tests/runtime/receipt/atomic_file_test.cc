#include "runtime/receipt/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace isobit {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class AtomicFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("atomic_file_test.") + std::to_string(getpid()) + "." +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const char* name) const { return (folder_ / name).string(); }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ptrdiff_t FilesInFolder() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

TEST_F(AtomicFile, CreatesAndReplaces) {
  const std::string path = Path("file");
  EXPECT_TRUE(WriteFileAtomically(path, "one").ok());
  EXPECT_EQ(Read(path), "one");
  const std::string large(1 << 20, 'x');
  EXPECT_TRUE(WriteFileAtomically(path, large).ok());
  EXPECT_EQ(Read(path), large);
  EXPECT_TRUE(WriteFileAtomically(path, "").ok());
  EXPECT_EQ(Read(path), "");
  EXPECT_EQ(FilesInFolder(), 1) << "nothing is left beside it";
}

// A reader that opened the old file keeps all of it: it is replaced, never overwritten.
TEST_F(AtomicFile, NeverShowsHalf) {
  const std::string path = Path("file");
  ASSERT_TRUE(WriteFileAtomically(path, "old content").ok());
  std::ifstream reader(path);
  ASSERT_TRUE(WriteFileAtomically(path, "new").ok());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "old content");
  EXPECT_EQ(Read(path), "new");
}

TEST_F(AtomicFile, FollowsASymbolicLink) {
  ASSERT_TRUE(WriteFileAtomically(Path("target"), "old").ok());
  fs::create_symlink(Path("target"), Path("link"));
  ASSERT_TRUE(WriteFileAtomically(Path("link"), "new").ok());
  EXPECT_TRUE(fs::is_symlink(Path("link")));
  EXPECT_EQ(Read(Path("target")), "new");
}

TEST_F(AtomicFile, ErrorsNameThePathAndTheReason) {
  const std::string path = Path("missing/file");
  EXPECT_THAT(std::string(WriteFileAtomically(path, "x").message()),
              AllOf(HasSubstr(path), HasSubstr("No such file")));
  EXPECT_FALSE(WriteFileAtomically(folder_.string(), "x").ok()) << "a folder is no file";
  EXPECT_EQ(FilesInFolder(), 0);
}

TEST_F(AtomicFile, AFullDeviceIsAnErrorAndStaysADevice) {
  const absl::Status status = WriteFileAtomically("/dev/full", "x");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_TRUE(WriteFileAtomically("/dev/null", "x").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(AtomicFile, ReadsWhole) {
  const std::string path = Path("file");
  for (const std::string& content :
       {std::string(), std::string("a\0b", 3), std::string(1 << 20, 'x')}) {
    ASSERT_TRUE(WriteFileAtomically(path, content).ok());
    EXPECT_EQ(ReadWholeFile(path, content.size(), "a test").value(), content);
  }
  const absl::Status longer = ReadWholeFile(path, (1 << 20) - 1, "a test").status();
  EXPECT_EQ(longer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(longer.message()),
            path + ": longer than 1048575 bytes, the limit of a test");
  const absl::Status missing = ReadWholeFile(Path("missing"), 1, "a test").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("cannot open " + Path("missing")));
  const absl::Status folder = ReadWholeFile(folder_.string(), 1, "a test").status();
  EXPECT_NE(folder.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(folder.message()), HasSubstr("cannot read " + folder_.string()));
}

}  // namespace
}  // namespace isobit
