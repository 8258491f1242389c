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
      absl::StrCat("normalizing text failed: ", utf8proc_errmsg(code)));
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

// Decomposes, canonically or also by compatibility, and orders the marks.
absl::StatusOr<std::vector<utf8proc_int32_t>> Decompose(std::string_view text, bool compat) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compat ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    at += step.length;
    utf8proc_int32_t parts[32];  // the longest decomposition has 18
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(step.point), parts, 32, options, nullptr);
    if (count < 0 || count > 32) return Failed(count < 0 ? count : UTF8PROC_ERROR_OVERFLOW);
    points.insert(points.end(), parts, parts + count);
  }
  OrderMarks(&points);
  return points;
}

absl::StatusOr<std::string> Compose(std::vector<utf8proc_int32_t> points) {
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  std::string out;
  out.reserve(points.size());
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

// Nothing below U+0300 composes with anything below it, and ASCII decomposes in no way.
bool IsBelow(std::string_view text, unsigned char lead) {
  return std::all_of(text.begin(), text.end(),
                     [lead](char c) { return static_cast<unsigned char>(c) < lead; });
}

absl::StatusOr<std::string> Decomposed(std::string_view text, bool compat) {
  if (IsBelow(text, 0x80)) return std::string(text);
  absl::StatusOr<std::vector<utf8proc_int32_t>> points = Decompose(text, compat);
  if (!points.ok()) return points.status();
  std::string out;
  for (const utf8proc_int32_t point : *points) AppendUtf8(static_cast<char32_t>(point), &out);
  return out;
}

absl::StatusOr<std::string> Composed(std::string_view text, bool compat) {
  if (IsBelow(text, compat ? 0x80 : 0xCC)) return std::string(text);  // 0xCC leads U+0300
  absl::StatusOr<std::vector<utf8proc_int32_t>> points = Decompose(text, compat);
  if (!points.ok()) return points.status();
  return Compose(*std::move(points));
}

}  // namespace

absl::StatusOr<std::string> ToNfc(std::string_view text) { return Composed(text, false); }
absl::StatusOr<std::string> ToNfd(std::string_view text) { return Decomposed(text, false); }
absl::StatusOr<std::string> ToNfkc(std::string_view text) { return Composed(text, true); }
absl::StatusOr<std::string> ToNfkd(std::string_view text) { return Decomposed(text, true); }

}  // namespace isobit
