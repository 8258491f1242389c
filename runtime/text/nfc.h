#ifndef ISOBIT_RUNTIME_TEXT_NFC_H_
#define ISOBIT_RUNTIME_TEXT_NFC_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace isobit {

// `text` in Unicode normalization form C (UAX #15). Time O(n log n) whatever the text.
// The character data are utf8proc's: versions differ only in characters that are newer than one of
// them. REQUIRES: `text` is valid UTF-8. ResourceExhausted if utf8proc fails.
absl::StatusOr<std::string> ToNfc(std::string_view text);

// The other forms, with the same time and errors.
absl::StatusOr<std::string> ToNfd(std::string_view text);
absl::StatusOr<std::string> ToNfkc(std::string_view text);
absl::StatusOr<std::string> ToNfkd(std::string_view text);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_NFC_H_
