#include "invariance/comparison.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace isobit {
namespace {

// Floats in their order, as integers: neighbours differ by one.
int64_t Rank(float x) {
  const uint32_t bits = FloatBits(x);
  const auto magnitude = static_cast<int64_t>(bits & 0x7fffffffu);
  return (bits >> 31) != 0 ? -magnitude - 1 : magnitude;
}

std::string ExplainFloats(float expected, float got) {
  const int64_t ulps = UlpDistance(expected, got);
  return absl::StrFormat("0x%08x (%.9g) expected, 0x%08x (%.9g) here, %s", FloatBits(expected),
                         expected, FloatBits(got), got,
                         ulps < 0 ? "not a number" : absl::StrCat(ulps, " ULP"));
}

}  // namespace

int64_t UlpDistance(float a, float b) {
  if (FloatBits(a) == FloatBits(b)) return 0;
  if (IsNan(a) || IsNan(b)) return -1;
  return std::abs(Rank(a) - Rank(b));
}

template <typename T, typename Explain>
void Comparison::Compare(std::span<const T> expected, std::span<const T> got, const Place& place,
                         const Explain& explain) {
  const size_t size = std::min(expected.size(), got.size());
  compared_ += static_cast<int64_t>(size);
  if (size > 0 && std::memcmp(expected.data(), got.data(), size * sizeof(T)) != 0) {
    size_t first = size;
    int64_t count = 0;
    for (size_t i = 0; i < size; ++i) {
      if (std::memcmp(&expected[i], &got[i], sizeof(T)) == 0) continue;
      first = std::min(first, i);
      ++count;
    }
    if (first_.empty()) {
      first_ = absl::StrCat(place(first), ": ", explain(expected[first], got[first]), "; ", count,
                            " of ", size, " values there differ");
    }
    different_ += count;
  }
  if (expected.size() != got.size()) {
    Note(absl::StrCat(place(size), ": ", expected.size(), " values expected, ", got.size(),
                      " here"));
  }
}

void Comparison::Floats(std::span<const float> expected, std::span<const float> got,
                        const Place& place) {
  Compare(expected, got, place, ExplainFloats);
}

void Comparison::Bf16s(std::span<const Bf16> expected, std::span<const Bf16> got,
                       const Place& place) {
  Compare(expected, got, place, [](Bf16 e, Bf16 g) {
    const bool nan = IsNan(ToFloat(e)) || IsNan(ToFloat(g));
    const int64_t ulps = UlpDistance(ToFloat(e), ToFloat(g)) >> 16;
    return absl::StrFormat("0x%04x (%.9g) expected, 0x%04x (%.9g) here, %s", e.bits, ToFloat(e),
                           g.bits, ToFloat(g),
                           nan ? "not a number" : absl::StrCat(ulps, " ULP of bf16"));
  });
}

void Comparison::Integers(std::span<const int32_t> expected, std::span<const int32_t> got,
                          const Place& place) {
  Compare(expected, got, place,
          [](int32_t e, int32_t g) { return absl::StrCat(e, " expected, ", g, " here"); });
}

void Comparison::Text(std::string_view expected, std::string_view got, const std::string& place) {
  ++compared_;
  if (expected == got) return;
  Note(absl::StrFormat("%s: \"%s\" expected, \"%s\" here", place, std::string(expected),
                       std::string(got)));
}

void Comparison::Fail(const std::string& what) { Note(what); }

void Comparison::Note(const std::string& what) {
  if (first_.empty()) first_ = what;
  ++different_;
}

std::string Comparison::Describe() const {
  if (different_ <= 1) return first_;
  return absl::StrCat(first_, "; ", different_, " in all");
}

}  // namespace isobit
