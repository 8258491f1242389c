#include "tools/isobit/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tests/tools/isobit/temp_folder.h"

namespace isobit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OutputFile, LeavesWhatIsThereUntilItIsCut) {
  const TempFolder folder;
  const std::string path = folder.Write("out", "old\ntext\n");
  absl::StatusOr<OutputFile> file = OutputFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->is_regular());
  EXPECT_EQ(TempFolder::Read(path), "old\ntext\n");
  ASSERT_TRUE(file->Truncate(4).ok());
  ASSERT_TRUE(file->Append("new\n").ok());
  ASSERT_TRUE(file->Sync().ok());
  EXPECT_EQ(TempFolder::Read(path), "old\nnew\n");
}

TEST(OutputFile, ErrorsNameThePath) {
  EXPECT_THAT(std::string(OutputFile::Open("/nowhere/out").status().message()),
              AllOf(HasSubstr("/nowhere/out"), HasSubstr("No such file")));
  EXPECT_FALSE(OutputFile::Open("/").ok());
}

TEST(OutputFile, AFullDisk) {
  absl::StatusOr<OutputFile> file = OutputFile::Open("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->is_regular());
  ASSERT_TRUE(file->Truncate(0).ok());
  EXPECT_THAT(std::string(file->Append("x\n").message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

// A disk that fills up in the middle of a write must not leave half a line.
TEST(OutputFile, AFailedWriteLeavesWholeLines) {
  const TempFolder folder;
  const std::string path = folder.Path("out");
  std::signal(SIGXFSZ, SIG_IGN);  // the write fails with EFBIG instead
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit = {10, before.rlim_max};
  absl::StatusOr<OutputFile> file = OutputFile::Open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status first = file->Append("12345\n");
  const absl::Status second = file->Append("67890\n");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(first.ok()) << first;
  EXPECT_THAT(std::string(second.message()), HasSubstr("cannot write"));
  EXPECT_EQ(TempFolder::Read(path), "12345\n");
  ASSERT_TRUE(file->Append("abc\n").ok());
  EXPECT_EQ(TempFolder::Read(path), "12345\nabc\n");
}

TEST(OutputFile, APipeThatNobodyReads) {
  const TempFolder folder;
  const std::string path = folder.Path("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::signal(SIGPIPE, SIG_IGN);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  absl::StatusOr<OutputFile> file = OutputFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Append("x\n").ok());
  close(reader);
  EXPECT_THAT(std::string(file->Append("x\n").message()), HasSubstr("Broken pipe"));
}

TEST(OutputFile, KnowsItsInput) {
  const TempFolder folder;
  const std::string path = folder.Write("file", "");
  const int same = open(path.c_str(), O_RDONLY);
  const int other = open("/dev/null", O_RDONLY);
  absl::StatusOr<OutputFile> file = OutputFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->IsSameFileAs(same));
  EXPECT_FALSE(file->IsSameFileAs(other));
  EXPECT_FALSE(OutputFile::Open("/dev/null")->IsSameFileAs(other)) << "no harm in that";
  close(same);
  close(other);
}

}  // namespace
}  // namespace isobit
