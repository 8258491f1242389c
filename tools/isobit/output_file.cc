#include "tools/isobit/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace isobit {

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  if (path == "-") return OutputFile(STDOUT_FILENO, "standard output", /*owned=*/false);
  // A file is read again by --resume. A pipe must not be opened for reading: whoever holds its
  // other end would never be missed.
  struct stat status;
  const bool is_special = stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  const int flags = is_special ? O_WRONLY : O_RDWR | O_CREAT;
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return OutputFile(fd, path, /*owned=*/true);
}

OutputFile::OutputFile(int fd, std::string name, bool owned)
    : fd_(fd), name_(std::move(name)), owned_(owned) {
  struct stat status;
  is_regular_ = owned && fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(other.fd_),
      name_(std::move(other.name_)),
      owned_(std::exchange(other.owned_, false)),
      is_regular_(other.is_regular_) {}

OutputFile::~OutputFile() {
  if (owned_) close(fd_);
}

bool OutputFile::IsSameFileAs(int fd) const {
  struct stat ours, theirs;
  return is_regular_ && fstat(fd_, &ours) == 0 && fstat(fd, &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

absl::Status OutputFile::Truncate(int64_t bytes) {
  if (!is_regular_) return absl::OkStatus();
  if (ftruncate(fd_, bytes) != 0 || lseek(fd_, bytes, SEEK_SET) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot cut ", name_));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Append(std::string_view text) {
  const off_t before = is_regular_ ? lseek(fd_, 0, SEEK_CUR) : -1;
  while (!text.empty()) {
    const ssize_t written = write(fd_, text.data(), text.size());
    if (written < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      absl::Status status = absl::ErrnoToStatus(error, absl::StrCat("cannot write ", name_));
      if (before >= 0 && !Truncate(before).ok()) {
        return absl::DataLossError(
            absl::StrCat(status.message(), "; its last line is not complete"));
      }
      return status;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Sync() {
  if (!is_regular_ || fsync(fd_) == 0) return absl::OkStatus();
  // File systems without sync say so; nothing more can be done there.
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot bring to disk ", name_));
}

absl::Status WriteOutput(const std::string& path, std::string_view text) {
  absl::StatusOr<OutputFile> output = OutputFile::Open(path);
  if (!output.ok()) return output.status();
  if (absl::Status s = output->Truncate(0); !s.ok()) return s;
  if (absl::Status s = output->Append(text); !s.ok()) return s;
  return output->Sync();
}

}  // namespace isobit
