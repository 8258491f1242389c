#include "runtime/api/c/marshal.h"

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

absl::Status ReadText(const char* text, size_t length, const char* name, std::string& out) {
  if (text == nullptr && length > 0) return NotNull(text, name);
  out.assign(text == nullptr ? "" : text, length);
  return absl::OkStatus();
}

void WriteDigest(const std::string& hex, char (&out)[ISOBIT_DIGEST_SIZE]) {
  std::memset(out, 0, sizeof(out));
  hex.copy(out, sizeof(out) - 1);
}

}  // namespace isobit::c
