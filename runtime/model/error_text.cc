#include "runtime/model/error_text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace isobit {

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 80;
  return absl::StrCat("'", absl::CHexEscape(Absl(text.substr(0, kShown))),
                      text.size() > kShown ? "..." : "", "'");
}

absl::Status WithPath(const absl::Status& status, const std::string& path) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace isobit
