#ifndef ISOBIT_RUNTIME_MODEL_MEMORY_MAP_H_
#define ISOBIT_RUNTIME_MODEL_MEMORY_MAP_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace isobit {

// A regular file mapped for reading. The file must not be changed while it is mapped: if another
// process truncates it, reading the missing pages is a SIGBUS, as with any memory map.
class MemoryMap {
 public:
  // NotFound, PermissionDenied, Unavailable, or InvalidArgument if it is no regular file; each
  // names the path.
  static absl::StatusOr<std::unique_ptr<MemoryMap>> Open(const std::string& path);

  MemoryMap(const MemoryMap&) = delete;
  MemoryMap& operator=(const MemoryMap&) = delete;
  ~MemoryMap();

  std::span<const std::byte> bytes() const { return bytes_; }

  // Lets the kernel drop the pages of `part` of bytes(); they can be read again.
  void Release(std::span<const std::byte> part) const;

 private:
  explicit MemoryMap(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

// The whole of a file. Errors of MemoryMap::Open; InvalidArgument beyond `max_bytes`.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_MEMORY_MAP_H_
