#ifndef ISOBIT_RUNTIME_TEXT_JINJA_STRING_LITERAL_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_STRING_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace isobit::jinja {

// The text of a string literal from what stands between its quotes, with Python's escapes:
// \n \t \r \a \b \f \v \\ \' \" \newline, octal, \x, \u and \U. Others stay as they are written.
absl::StatusOr<std::string> Unescape(std::string_view literal, int line);

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_STRING_LITERAL_H_
