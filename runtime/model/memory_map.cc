#include "runtime/model/memory_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

absl::Status ErrnoStatus(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemoryMap>> MemoryMap::Open(const std::string& path) {
  // O_NONBLOCK so that a FIFO given by mistake is refused below instead of waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ErrnoStatus("can't open", path);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    const absl::Status status = ErrnoStatus("can't stat", path);
    close(fd);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  std::span<const std::byte> bytes;
  if (const auto size = static_cast<size_t>(info.st_size); size > 0) {
    void* base = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) {
      const absl::Status status = ErrnoStatus("can't map", path);
      close(fd);
      return status;
    }
    bytes = {static_cast<const std::byte*>(base), size};
  }
  close(fd);
  return std::unique_ptr<MemoryMap>(new MemoryMap(bytes));
}

MemoryMap::~MemoryMap() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MemoryMap::Release(std::span<const std::byte> part) const {
  if (part.empty()) return;
  // Rounded outwards: a neighbour's bytes in the first or last page are simply read again.
  // The mapping itself begins on a page.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto offset = static_cast<size_t>(part.data() - bytes_.data());
  const size_t begin = offset / page * page;
  // A hint; if it fails the pages merely stay.
  (void)madvise(const_cast<std::byte*>(bytes_.data()) + begin, offset + part.size() - begin,
                MADV_DONTNEED);
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  absl::StatusOr<std::unique_ptr<MemoryMap>> map = MemoryMap::Open(path);
  if (!map.ok()) return map.status();
  const std::span<const std::byte> bytes = (*map)->bytes();
  if (bytes.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", bytes.size(), " bytes long, the limit is ", max_bytes));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace isobit
