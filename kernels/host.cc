#include "kernels/host.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The first number in a file of one line; fallback if there is no file or no number ("max").
int64_t ReadNumber(const std::string& path, int64_t fallback) {
  std::ifstream in(path);
  int64_t value;
  return in >> value ? value : fallback;
}

// The number behind `key` in a file of lines "key[:] number ..."; fallback if there is none.
int64_t ReadField(const std::string& path, std::string_view key, int64_t fallback) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string name;
    int64_t value;
    if (fields >> name >> value && (name == key || name == std::string(key) + ":")) return value;
  }
  return fallback;
}

std::string ProcessorName(const std::string& root) {
  std::ifstream in(root + "proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      const size_t begin = line.find_first_not_of(' ', colon + 1);
      return begin == std::string::npos ? "unknown processor" : line.substr(begin);
    }
  }
  return "unknown processor";
}

// The group folders that limit this process: its own and all around it. A container often mounts
// its own group as the root while naming its path outside; folders that do not exist limit nothing.
struct Groups {
  std::vector<std::string> unified;    // version 2
  std::vector<std::string> memory_v1;  // version 1, by controller
  std::vector<std::string> cpu_v1;
};

std::vector<std::string> WithParents(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  while (!path.empty() && path != "/") {
    folders.push_back(mount + path);
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

bool HasController(const std::string& list, const std::string& controller) {
  return ("," + list + ",").find("," + controller + ",") != std::string::npos;
}

Groups FindGroups(const std::string& root) {
  const std::string mount = root + "sys/fs/cgroup";
  Groups groups;
  std::ifstream in(root + "proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {  // hierarchy:controllers:path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) groups.unified = WithParents(mount, path);
    if (HasController(controllers, "memory")) {
      groups.memory_v1 = WithParents(mount + "/memory", path);
    }
    if (HasController(controllers, "cpu")) groups.cpu_v1 = WithParents(mount + "/cpu", path);
  }
  return groups;
}

// Page cache that the kernel gives back on demand is not counted as used.
void LimitMemory(int64_t limit, int64_t used, int64_t reclaimable, HostLimits& limits) {
  if (limit == kUnlimited || limit < 0) return;
  limits.memory_bytes = std::min(limits.memory_bytes, limit);
  const int64_t busy = std::max<int64_t>(used - reclaimable, 0);
  limits.available_bytes = std::min(limits.available_bytes, std::max<int64_t>(limit - busy, 0));
}

// A share of a processor is rounded down: a thread that is stopped for lack of quota holds up all.
void LimitProcessors(int64_t quota, int64_t period, HostLimits& limits) {
  if (quota <= 0 || quota == kUnlimited || period <= 0) return;
  const int64_t whole = std::max<int64_t>(quota / period, 1);
  limits.processors = static_cast<int>(std::min<int64_t>(limits.processors, whole));
}

int ProcessorsByAffinity() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

class HostBuffer : public Buffer {
 public:
  // mapped_bytes: 0 if the memory is from the heap.
  HostBuffer(void* data, size_t bytes, void* mapping, size_t mapped_bytes)
      : Buffer(data, bytes), mapping_(mapping), mapped_bytes_(mapped_bytes) {}
  ~HostBuffer() override {
    if (mapped_bytes_ != 0) {
      munmap(mapping_, mapped_bytes_);
    } else {
      std::free(data());
    }
  }

 private:
  void* mapping_;
  size_t mapped_bytes_;
};

absl::Status Exhausted(size_t bytes, int64_t available) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "not enough memory: ", bytes, " bytes asked for, ", available, " bytes available"));
}

}  // namespace

HostLimits ReadHostLimits(const std::string& root) {
  HostLimits limits;
  limits.processor = ProcessorName(root);
  limits.processors = ProcessorsByAffinity();
  const int64_t page = sysconf(_SC_PAGESIZE);
  const std::string meminfo = root + "proc/meminfo";  // in KiB
  limits.memory_bytes =
      1024 * ReadField(meminfo, "MemTotal", sysconf(_SC_PHYS_PAGES) * page / 1024);
  limits.available_bytes =
      1024 * ReadField(meminfo, "MemAvailable", sysconf(_SC_AVPHYS_PAGES) * page / 1024);

  const Groups groups = FindGroups(root);
  for (const std::string& folder : groups.unified) {
    LimitMemory(ReadNumber(folder + "/memory.max", kUnlimited),
                ReadNumber(folder + "/memory.current", 0),
                ReadField(folder + "/memory.stat", "inactive_file", 0), limits);
    int64_t quota = kUnlimited, period = 0;
    std::ifstream in(folder + "/cpu.max");
    if (in >> quota >> period) LimitProcessors(quota, period, limits);
  }
  for (const std::string& folder : groups.memory_v1) {
    LimitMemory(ReadNumber(folder + "/memory.limit_in_bytes", kUnlimited),
                ReadNumber(folder + "/memory.usage_in_bytes", 0),
                ReadField(folder + "/memory.stat", "total_inactive_file", 0), limits);
  }
  for (const std::string& folder : groups.cpu_v1) {
    LimitProcessors(ReadNumber(folder + "/cpu.cfs_quota_us", kUnlimited),
                    ReadNumber(folder + "/cpu.cfs_period_us", 0), limits);
  }
  return limits;
}

absl::StatusOr<std::unique_ptr<Buffer>> AllocateHostBuffer(size_t bytes) {
  if (bytes < kHugePage) {
    void* data = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    if (data == nullptr) return Exhausted(bytes, ReadHostLimits().available_bytes);
    return std::make_unique<HostBuffer>(data, bytes, nullptr, 0);
  }
  // An overcommitting system maps anything and kills the process later: ask first.
  const int64_t available = ReadHostLimits().available_bytes;
  if (bytes > static_cast<uint64_t>(available)) return Exhausted(bytes, available);
  const size_t mapped_bytes = bytes + kHugePage;
  void* mapping = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       /*fd=*/-1, /*offset=*/0);
  if (mapping == MAP_FAILED) return Exhausted(bytes, available);
  const uintptr_t begin =
      (reinterpret_cast<uintptr_t>(mapping) + kHugePage - 1) / kHugePage * kHugePage;
  void* data = reinterpret_cast<void*>(begin);
  madvise(data, bytes, MADV_HUGEPAGE);  // only a wish: where it fails, small pages work as well
  return std::make_unique<HostBuffer>(data, bytes, mapping, mapped_bytes);
}

}  // namespace isobit
