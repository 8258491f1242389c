#include "runtime/text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

// One below the first trailing consonant of Hangul. It composes with nothing, but utf8proc 2.8
// drops it behind a syllable. So it always begins a new piece to compose.
constexpr utf8proc_int32_t kBeforeTrailingConsonants = 0x11A7;

absl::Status Failed(utf8proc_ssize_t code) {
  return absl::ResourceExhaustedError(
      absl::StrCat("normalizing text to NFC failed: ", utf8proc_errmsg(code)));
}

uint8_t CombiningClass(utf8proc_int32_t point) {
  return static_cast<uint8_t>(utf8proc_get_property(point)->combining_class);
}

// Canonical ordering: marks between two starters go by combining class, equals stay in order.
// utf8proc's own is an insertion sort, which a long run of marks makes quadratic.
void OrderMarks(std::vector<utf8proc_int32_t>* points) {
  auto at = points->begin();
  while (at != points->end()) {
    if (CombiningClass(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(
        at, points->end(), [](utf8proc_int32_t point) { return CombiningClass(point) == 0; });
    std::stable_sort(at, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    at = end;
  }
}

}  // namespace

absl::StatusOr<std::string> ToNfc(std::string_view text) {
  // Nothing below U+0300 composes with anything below it, so such text is in NFC already. In UTF-8
  // that is everything up to the lead byte 0xCB.
  if (std::all_of(text.begin(), text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0xCC; })) {
    return std::string(text);
  }
  constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    at += step.length;
    utf8proc_int32_t parts[32];  // the longest canonical decomposition has 4
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(step.point), parts, 32, kDecompose, nullptr);
    if (count < 0 || count > 32) return Failed(count < 0 ? count : UTF8PROC_ERROR_OVERFLOW);
    points.insert(points.end(), parts, parts + count);
  }
  OrderMarks(&points);
  std::string out;
  out.reserve(text.size());
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find(begin + 1, points.end(), kBeforeTrailingConsonants);
    const utf8proc_ssize_t length = utf8proc_normalize_utf32(&*begin, end - begin, kCompose);
    if (length < 0) return Failed(length);
    for (utf8proc_ssize_t i = 0; i < length; ++i) {
      AppendUtf8(static_cast<char32_t>(begin[i]), &out);
    }
    begin = end;
  }
  return out;
}

}  // namespace isobit
