#ifndef ISOBIT_RUNTIME_RECEIPT_ATOMIC_FILE_H_
#define ISOBIT_RUNTIME_RECEIPT_ATOMIC_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace isobit {

// Makes `content` the content of a file: after a crash at any moment the path holds either what it
// held before or all of the content, on disk. Written beside the path and renamed over it; what a
// symbolic link points to is replaced, not the link. A path that is no regular file (a device, a
// pipe) is written to as it is. Errors name the path and the reason.
absl::Status WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_RECEIPT_ATOMIC_FILE_H_
