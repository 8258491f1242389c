#ifndef ISOBIT_RUNTIME_RECEIPT_ATOMIC_FILE_H_
#define ISOBIT_RUNTIME_RECEIPT_ATOMIC_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace isobit {

// Makes `content` the content of a file: after a crash at any moment the path holds either what it
// held before or all of the content, on disk. Written beside the path and renamed over it; what a
// symbolic link points to is replaced, not the link. A path that is no regular file (a device, a
// pipe) is written to as it is. Errors name the path and the reason.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

// The content of a file. Errors name the path: the system's (NotFound if nothing is there), or
// InvalidArgument if it is longer than `max_bytes`, "the limit of <what>".
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t max_bytes,
                                          std::string_view what);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_RECEIPT_ATOMIC_FILE_H_
