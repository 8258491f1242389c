#ifndef ISOBIT_TOOLS_ISOBIT_OUTPUT_FILE_H_
#define ISOBIT_TOOLS_ISOBIT_OUTPUT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace isobit {

// Where results go: a file, or stdout ("-"). Not thread-safe.
class OutputFile {
 public:
  // Creates the file if there is none, and leaves alone what is in it. Errors name the path.
  static absl::StatusOr<OutputFile> Open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  ~OutputFile();

  int fd() const { return fd_; }
  const std::string& name() const { return name_; }
  // A file on disk that was opened here: it may be cut and synced, unlike a pipe, a device, or
  // stdout, which belongs to whoever started us.
  bool is_regular() const { return is_regular_; }
  // The same file on disk as this descriptor's.
  bool IsSameFileAs(int fd) const;

  // Keeps the first `bytes` and goes on behind them. No effect unless regular.
  absl::Status Truncate(int64_t bytes);

  // Writes all of `text` now. If that fails, a regular file is cut back to what it was before, so
  // that it never ends in the middle of a line.
  absl::Status Append(std::string_view text);

  // Brings everything to disk. Disks that fill up late say so here.
  absl::Status Sync();

 private:
  OutputFile(int fd, std::string name, bool owned);

  int fd_;
  std::string name_;
  bool owned_ = false;
  bool is_regular_ = false;
};

// Writes `text` to a file, whose contents it replaces, or to stdout ("-").
absl::Status WriteOutput(const std::string& path, std::string_view text);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_OUTPUT_FILE_H_
