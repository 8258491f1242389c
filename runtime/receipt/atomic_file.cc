#include "runtime/receipt/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

absl::Status WriteError(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

// 0, or errno.
int WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

// Opens, writes, syncs if asked and closes. 0, or errno.
int WriteTo(const std::string& path, int flags, std::string_view content, bool sync) {
  const int fd = open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) return errno;
  int error = WriteAll(fd, content);
  if (error == 0 && sync && fsync(fd) != 0) error = errno;
  if (close(fd) != 0 && error == 0) error = errno;
  return error;
}

// The rename itself is on disk only when its folder is. File systems that can't sync a folder need
// no sync.
void SyncFolder(const std::filesystem::path& folder) {
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  std::error_code unused;
  std::filesystem::path target = path;
  if (std::filesystem::exists(target, unused)) {
    target = std::filesystem::canonical(target, unused);
    if (!std::filesystem::is_regular_file(target, unused)) {
      const int error = WriteTo(path, 0, content, /*sync=*/false);
      return error == 0 ? absl::OkStatus() : WriteError(path, error);
    }
  }
  static std::atomic<int> counter = 0;
  const std::string beside = absl::StrCat(target.string(), ".", getpid(), ".", counter++, ".tmp");
  int error = WriteTo(beside, O_CREAT | O_EXCL, content, /*sync=*/true);
  if (error == 0 && std::rename(beside.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    if (error != EEXIST) unlink(beside.c_str());
    return WriteError(path, error);
  }
  SyncFolder(target.parent_path());
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes,
                                          std::string_view what) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  std::string text;
  char buffer[1 << 16];
  while (const size_t read = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, read);
    if (text.size() > max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": longer than ", max_bytes,
                                                     " bytes, the limit of ", std::string(what)));
    }
  }
  if (std::ferror(file.get())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return text;
}

}  // namespace isobit
