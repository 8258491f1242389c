#ifndef ISOBIT_TOOLS_ISOBIT_LINE_READER_H_
#define ISOBIT_TOOLS_ISOBIT_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace isobit {

struct Line {
  int64_t number = 0;      // from 1
  std::string text;        // without its end ("\n" or "\r\n"); empty if too long
  size_t bytes = 0;        // its length in the file, end included
  bool too_long = false;   // more than the reader's limit; was read past
  bool terminated = true;  // false for a last line without an end
};

// Lines of a file or pipe, with bounded memory: reading (Fill) and taking lines out (Next) are
// apart, so that a caller can wait for input together with other things and reads no further ahead
// than it wants to.
//
//   while (true) {
//     while (std::optional<Line> line = reader.Next()) ...
//     if (reader.at_end()) break;
//     status = reader.Fill();
//   }
//
// Not thread-safe.
class LineReader {
 public:
  // "-" is stdin. NotFound, PermissionDenied, ... name the path.
  static absl::StatusOr<LineReader> Open(const std::string& path, size_t max_line_bytes);
  // Does not close `fd`; `name` stands for it in errors.
  LineReader(int fd, std::string name, size_t max_line_bytes);

  LineReader(LineReader&& other) noexcept;
  ~LineReader();

  int fd() const { return fd_; }
  const std::string& name() const { return name_; }
  bool at_end() const { return at_end_; }

  // Reads once; waits if there is nothing yet. Sets at_end() at the end of the input and on errors.
  absl::Status Fill();

  // The next whole line of what was read, blank ones (spaces and tabs only) left out. None if Fill
  // must read more, or at the end.
  std::optional<Line> Next();

 private:
  // Takes `size` bytes of the buffer and their end as the next line.
  Line Take(size_t size, size_t end_bytes);

  int fd_;
  bool owned_ = false;
  std::string name_;
  size_t max_line_bytes_;
  bool at_end_ = false;
  std::string buffer_;
  size_t begin_ = 0;          // of what was not taken yet
  size_t searched_ = 0;       // no line end stands before this place
  size_t dropped_bytes_ = 0;  // of the present line, which is too long
  int64_t line_number_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_LINE_READER_H_
