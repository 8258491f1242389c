#include "kernels/host.h"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace isobit {
namespace {

// A folder that looks like the root of a machine, with 8 GiB of memory and 6 GiB free.
class HostTest : public testing::Test {
 protected:
  HostTest()
      : root_(testing::TempDir() + "isobit_host_" + std::to_string(getpid()) + "_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + "/") {
    Write("proc/meminfo",
          "MemTotal:        8388608 kB\nMemFree:  1024 kB\nMemAvailable:    6291456 kB\n");
    Write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Processor @ 2 GHz\n");
  }
  ~HostTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  static constexpr int64_t kGiB = int64_t{1} << 30;
  std::string root_;
};

TEST_F(HostTest, WithoutGroups) {
  const HostLimits limits = ReadHostLimits(root_);
  EXPECT_EQ(limits.processor, "Some Processor @ 2 GHz");
  EXPECT_EQ(limits.memory_bytes, 8 * kGiB);
  EXPECT_EQ(limits.available_bytes, 6 * kGiB);
  EXPECT_GE(limits.processors, 1);
}

TEST_F(HostTest, MemoryLimitOfVersion2) {
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("sys/fs/cgroup/a/memory.max", "4294967296\n");  // the group around it has the limit
  Write("sys/fs/cgroup/a/memory.current", "2147483648\n");
  Write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 1073741824\n");
  const HostLimits limits = ReadHostLimits(root_);
  EXPECT_EQ(limits.memory_bytes, 4 * kGiB);
  EXPECT_EQ(limits.available_bytes, 3 * kGiB);  // page cache counts as free
}

TEST_F(HostTest, MemoryLimitOfVersion1) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/docker/x\n4:memory:/docker/x\n");
  // Inside a container the group itself is mounted as the root.
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
  Write("sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n");
  const HostLimits limits = ReadHostLimits(root_);
  EXPECT_EQ(limits.memory_bytes, 2 * kGiB);
  EXPECT_EQ(limits.available_bytes, kGiB);
}

TEST_F(HostTest, UsageAboveTheLimitLeavesNothing) {
  Write("proc/self/cgroup", "0::/\n");
  Write("sys/fs/cgroup/memory.max", "1000\n");
  Write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(ReadHostLimits(root_).available_bytes, 0);
}

TEST_F(HostTest, QuotaLimitsProcessors) {
  Write("proc/self/cgroup", "0::/job\n");
  Write("sys/fs/cgroup/job/cpu.max", "150000 100000\n");
  EXPECT_EQ(ReadHostLimits(root_).processors, 1);  // one and a half, rounded down
  Write("sys/fs/cgroup/job/cpu.max", "20000 100000\n");
  EXPECT_EQ(ReadHostLimits(root_).processors, 1);
  Write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(ReadHostLimits(root_).processors, ReadHostLimits("/nothing/here/").processors);
}

TEST_F(HostTest, QuotaOfVersion1) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/job\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ReadHostLimits(root_).processors, 1);
  Write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(ReadHostLimits(root_).processors, ReadHostLimits("/nothing/here/").processors);
}

TEST_F(HostTest, GarbageLimitsNothing) {
  Write("proc/self/cgroup", "nonsense\n::\n0::/x\n");
  Write("sys/fs/cgroup/x/memory.max", "many\n");
  Write("sys/fs/cgroup/x/cpu.max", "\n");
  const HostLimits limits = ReadHostLimits(root_);
  EXPECT_EQ(limits.memory_bytes, 8 * kGiB);
  EXPECT_EQ(limits.available_bytes, 6 * kGiB);
}

TEST(Host, ThisMachineHasSomething) {
  const HostLimits limits = ReadHostLimits();
  EXPECT_GT(limits.memory_bytes, 0);
  EXPECT_GT(limits.available_bytes, 0);
  EXPECT_LE(limits.available_bytes, limits.memory_bytes);
  EXPECT_FALSE(limits.processor.empty());
}

TEST(AllocateHostBuffer, IsAlignedAndWritable) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{4096}, size_t{3} << 20}) {
    auto buffer = AllocateHostBuffer(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ((*buffer)->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64, 0u);
    std::memset((*buffer)->data(), 1, bytes);
  }
}

TEST(AllocateHostBuffer, RefusesWhatIsNotThere) {
  const size_t too_much = static_cast<size_t>(ReadHostLimits().memory_bytes) * 4;
  for (size_t bytes : {too_much, std::numeric_limits<size_t>::max()}) {
    const auto buffer = AllocateHostBuffer(bytes);
    EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(buffer.status().message()),
                testing::AllOf(testing::HasSubstr(std::to_string(bytes) + " bytes asked for"),
                               testing::HasSubstr("bytes available")));
  }
}

}  // namespace
}  // namespace isobit
