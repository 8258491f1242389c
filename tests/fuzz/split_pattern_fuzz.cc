// Any bytes as a split pattern, searched in a text within its budget.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "runtime/text/split_pattern.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isobit;
  const auto pattern =
      SplitPattern::Parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!pattern.ok()) {
    if (pattern.status().message().find("split pattern") == absl::string_view::npos) std::abort();
    return 0;
  }
  std::vector<ClassedChar> text;
  for (const char32_t c :
       std::u32string_view(U"It's  12\n\n caf\u00E9 \u4E2D\u0301 AAaa..\u2028")) {
    text.push_back({c, ClassOf(c)});
  }
  SplitPattern::Budget budget{100'000};
  for (size_t at = 0; at <= text.size() && budget.steps >= 0; ++at) {
    const auto end = pattern->MatchAt(text, at, &budget);
    if (end && (*end < at || *end > text.size())) std::abort();
  }
  return 0;
}
