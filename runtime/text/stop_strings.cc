#include "runtime/text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace isobit {
namespace {

std::vector<size_t> Borders(std::string_view text) {
  std::vector<size_t> border(text.size() + 1, 0);
  size_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = border[length];
    if (text[i] == text[length]) ++length;
    border[i + 1] = length;
  }
  return border;
}

}  // namespace

StopStrings::StopStrings(const std::vector<std::string>& stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (!stops[i].empty()) patterns_.push_back({stops[i], i, Borders(stops[i])});
  }
}

std::optional<StopStrings::Match> StopStrings::Take(char c) {
  held_.push_back(c);
  ++seen_;
  std::optional<Match> best;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& p = patterns_[i];
    while (p.matched > 0 && p.text[p.matched] != c) p.matched = p.border[p.matched];
    if (p.text[p.matched] == c) ++p.matched;
    if (p.matched < p.text.size()) continue;
    const Match match{seen_ - p.matched, i};
    if (!best || match < *best) best = match;
  }
  return best;
}

std::string StopStrings::Release(size_t until) {
  const size_t count = until - (seen_ - held_.size());
  std::string text = held_.substr(0, count);
  held_.erase(0, count);
  return text;
}

StopStrings::Result StopStrings::Push(std::string_view text) {
  if (stopped_) return {};
  for (const char c : text) {
    if (const std::optional<Match> match = Take(c)) {
      stopped_ = true;
      Result result{Release(match->begin), patterns_[match->pattern].index};
      held_.clear();
      return result;
    }
  }
  // Whatever may begin a stop must wait.
  size_t keep_from = seen_;
  for (const Pattern& p : patterns_) keep_from = std::min(keep_from, seen_ - p.matched);
  return {Release(keep_from), std::nullopt};
}

StopStrings::Result StopStrings::Finish() {
  if (stopped_) return {};
  return {Release(seen_), std::nullopt};
}

}  // namespace isobit
