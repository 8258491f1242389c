#ifndef ISOBIT_RUNTIME_TEXT_JINJA_ERRORS_H_
#define ISOBIT_RUNTIME_TEXT_JINJA_ERRORS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"

namespace isobit::jinja {

// The template breaks a rule of the language, or uses a value that does not serve.
inline absl::Status Error(int line, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("chat template, line ", line, ": ", Absl(what)));
}

// A part of the language that this interpreter does not have. `feature` as the template writes it.
inline absl::Status Unsupported(int line, std::string_view feature) {
  return absl::UnimplementedError(absl::StrCat("chat template uses '", Absl(feature),
                                               "', which is not supported (line ", line, ")"));
}

inline absl::Status LimitReached(std::string_view what, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat("chat template: ", Absl(what), ", the limit is ", limit));
}

}  // namespace isobit::jinja

#endif  // ISOBIT_RUNTIME_TEXT_JINJA_ERRORS_H_
