#ifndef ISOBIT_RUNTIME_API_C_MARSHAL_H_
#define ISOBIT_RUNTIME_API_C_MARSHAL_H_

// Structs and buffers of callers that were compiled with another version of the header, or that
// lie.

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/api/c/isobit.h"
#include "runtime/api/c/status.h"

namespace isobit::c {

// No struct of any version is larger; more is a struct_size that was never set.
inline constexpr size_t kMaxStructSize = 4096;

// Copies what a caller's struct and ours have in common over the defaults in `out`. A null pointer
// is all defaults.
template <typename T>
absl::Status ReadStruct(const T* from, const char* name, T& out) {
  if (from == nullptr) return absl::OkStatus();
  const size_t size = from->struct_size;
  if (size < sizeof(size_t) || size > kMaxStructSize) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ".struct_size must be what the _init function was given, got ", size));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > sizeof(T) &&
      !std::all_of(bytes + sizeof(T), bytes + size, [](unsigned char b) { return b == 0; })) {
    return absl::UnimplementedError(absl::StrCat(name, " sets a field that isobit ", ISOBIT_VERSION,
                                                 " does not know: it has ", size,
                                                 " bytes, known are ", sizeof(T)));
  }
  std::memcpy(static_cast<void*>(&out), bytes, std::min(size, sizeof(T)));
  return absl::OkStatus();
}

// Fills a caller's struct of `size` bytes; what it has beyond ours becomes 0. No effect on null or
// on a size that can't be.
template <typename T>
void WriteStruct(T from, T* out, size_t size) {
  if (out == nullptr || size < sizeof(size_t) || size > kMaxStructSize) return;
  from.struct_size = size;
  std::memset(static_cast<void*>(out), 0, size);
  std::memcpy(static_cast<void*>(out), &from, std::min(size, sizeof(T)));
}

template <typename T>
isobit_status WriteResult(const T& from, T* out, size_t size) {
  if (out == nullptr || size < sizeof(size_t) || size > kMaxStructSize) {
    return Report(ISOBIT_INVALID_ARGUMENT,
                  "a struct of results must not be NULL, and its size must be its sizeof");
  }
  WriteStruct(from, out, size);
  return ISOBIT_OK;
}

isobit_status TooSmall(size_t needed, size_t capacity);

// `value(i)` for i in [0, size) to a caller's buffer.
template <typename T, typename Value>
isobit_status WriteArray(size_t size, const Value& value, T* buffer, size_t capacity,
                         size_t* count) {
  if (count != nullptr) *count = size;
  if (size > capacity) return TooSmall(size, capacity);
  if (size > 0 && buffer == nullptr) {
    return Report(ISOBIT_INVALID_ARGUMENT, "a buffer with a capacity must not be NULL");
  }
  for (size_t i = 0; i < size; ++i) buffer[i] = value(i);
  return ISOBIT_OK;
}

// Text and its NUL.
isobit_status WriteText(std::string_view text, char* buffer, size_t capacity, size_t* count);

// InvalidArgument if something is said to be at NULL, or a length must have been negative.
absl::Status CheckLength(const void* pointer, size_t count, const char* name);
// A text of the caller.
absl::Status ReadText(const char* text, size_t length, const char* name, std::string& out);

void WriteDigest(const std::string& hex, char (&out)[ISOBIT_DIGEST_SIZE]);

}  // namespace isobit::c

#endif  // ISOBIT_RUNTIME_API_C_MARSHAL_H_
