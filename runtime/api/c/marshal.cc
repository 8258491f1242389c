#include "runtime/api/c/marshal.h"

#include <limits>

namespace isobit::c {

isobit_status TooSmall(size_t needed, size_t capacity) {
  return Report(ISOBIT_BUFFER_TOO_SMALL,
                absl::StrCat("the buffer must hold ", needed, ", got ", capacity).c_str());
}

isobit_status WriteText(std::string_view text, char* buffer, size_t capacity, size_t* count) {
  if (count != nullptr) *count = text.size();
  if (text.size() >= capacity) return TooSmall(text.size() + 1, capacity);
  if (buffer == nullptr) {
    return Report(ISOBIT_INVALID_ARGUMENT, "a buffer with a capacity must not be NULL");
  }
  std::copy(text.begin(), text.end(), buffer);
  buffer[text.size()] = '\0';
  return ISOBIT_OK;
}

absl::Status CheckLength(const void* pointer, size_t count, const char* name) {
  if (count == 0) return absl::OkStatus();
  // A negative length that became a size_t.
  if (count > size_t{std::numeric_limits<int32_t>::max()}) {
    return absl::InvalidArgumentError(absl::StrCat("the length of ", name, " must be at most ",
                                                   std::numeric_limits<int32_t>::max(), ", got ",
                                                   count));
  }
  return NotNull(pointer, name);
}

absl::Status ReadText(const char* text, size_t length, const char* name, std::string& out) {
  if (absl::Status s = CheckLength(text, length, name); !s.ok()) return s;
  out.assign(text == nullptr ? "" : text, length);
  return absl::OkStatus();
}

void WriteDigest(const std::string& hex, char (&out)[ISOBIT_DIGEST_SIZE]) {
  std::memset(out, 0, sizeof(out));
  hex.copy(out, sizeof(out) - 1);
}

}  // namespace isobit::c
