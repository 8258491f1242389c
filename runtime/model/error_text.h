#ifndef ISOBIT_RUNTIME_MODEL_ERROR_TEXT_H_
#define ISOBIT_RUNTIME_MODEL_ERROR_TEXT_H_

// Pieces of error messages about files.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace isobit {

// Abseil may be built with a string_view of its own.
inline absl::string_view Absl(std::string_view s) { return {s.data(), s.size()}; }

// Text from a file as a message can hold it: in quotes, with what is not printable ASCII escaped,
// and cut after 80 bytes if a lying file made it long.
std::string Quoted(std::string_view text);

// `status`, an error, with "PATH: " before its text.
absl::Status WithPath(const absl::Status& status, const std::string& path);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_ERROR_TEXT_H_
