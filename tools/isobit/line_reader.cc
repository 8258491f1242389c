#include "tools/isobit/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace isobit {

absl::StatusOr<LineReader> LineReader::Open(const std::string& path, size_t max_line_bytes) {
  if (path == "-") return LineReader(STDIN_FILENO, "standard input", max_line_bytes);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  LineReader reader(fd, path, max_line_bytes);
  reader.owned_ = true;
  return reader;
}

LineReader::LineReader(int fd, std::string name, size_t max_line_bytes)
    : fd_(fd), name_(std::move(name)), max_line_bytes_(max_line_bytes) {}

LineReader::LineReader(LineReader&& other) noexcept
    : fd_(other.fd_),
      owned_(std::exchange(other.owned_, false)),
      name_(std::move(other.name_)),
      max_line_bytes_(other.max_line_bytes_),
      at_end_(other.at_end_),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      searched_(other.searched_),
      dropped_bytes_(other.dropped_bytes_),
      line_number_(other.line_number_) {}

LineReader::~LineReader() {
  if (owned_) close(fd_);
}

absl::Status LineReader::Fill() {
  constexpr size_t kReadBytes = size_t{1} << 16;
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  // Of a line that is too long nothing is kept but its length.
  if (searched_ == buffer_.size() && dropped_bytes_ + buffer_.size() > max_line_bytes_) {
    dropped_bytes_ += buffer_.size();
    buffer_.clear();
    searched_ = 0;
  }
  const size_t held = buffer_.size();
  buffer_.resize(held + kReadBytes);
  ssize_t got;
  do {
    got = read(fd_, buffer_.data() + held, kReadBytes);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(held + static_cast<size_t>(got < 0 ? 0 : got));
  at_end_ = got <= 0;
  if (got < 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", name_));
  return absl::OkStatus();
}

Line LineReader::Take(size_t size, size_t end_bytes) {
  Line line;
  line.number = ++line_number_;
  line.bytes = dropped_bytes_ + size + end_bytes;
  line.terminated = end_bytes > 0;
  line.too_long = dropped_bytes_ + size > max_line_bytes_;
  if (!line.too_long) {
    const bool carriage_return = size > 0 && buffer_[begin_ + size - 1] == '\r';
    line.text = buffer_.substr(begin_, size - (carriage_return ? 1 : 0));
  }
  begin_ += size + end_bytes;
  searched_ = begin_;
  dropped_bytes_ = 0;
  return line;
}

std::optional<Line> LineReader::Next() {
  while (true) {
    const size_t end = buffer_.find('\n', searched_);
    searched_ = end == std::string::npos ? buffer_.size() : end;
    std::optional<Line> line;
    if (end != std::string::npos) {
      line = Take(end - begin_, 1);
    } else if (at_end_ && dropped_bytes_ + buffer_.size() > begin_) {
      line = Take(buffer_.size() - begin_, 0);
    } else {
      return std::nullopt;
    }
    if (line->too_long || line->text.find_first_not_of(" \t") != std::string::npos) return line;
  }
}

}  // namespace isobit
