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

void StopStrings::Take(char c) {
  held_.push_back(c);
  ++seen_;
  for (size_t i = 0; i < patterns_.size(); ++i) {
    Pattern& p = patterns_[i];
    if (p.matched == p.text.size()) p.matched = p.border[p.matched];
    while (p.matched > 0 && p.text[p.matched] != c) p.matched = p.border[p.matched];
    if (p.text[p.matched] == c) ++p.matched;
    if (p.matched < p.text.size()) continue;
    const Match match{seen_ - p.matched, i};
    if (!best_ || match < *best_) best_ = match;
  }
}

bool StopStrings::IsSettled() const {
  for (size_t i = 0; i < patterns_.size(); ++i) {
    const Pattern& p = patterns_[i];
    const bool whole = p.matched == p.text.size();
    const size_t begun = whole ? p.border[p.matched] : p.matched;
    if (begun > 0 && Match{seen_ - begun, i} < *best_) return false;
  }
  return true;
}

std::string StopStrings::Release(size_t until) {
  const size_t count = until - (seen_ - held_.size());
  std::string text = held_.substr(0, count);
  held_.erase(0, count);
  return text;
}

StopStrings::Result StopStrings::Stop() {
  stopped_ = true;
  Result result{Release(best_->begin), patterns_[best_->pattern].index};
  held_.clear();
  return result;
}

StopStrings::Result StopStrings::Push(std::string_view text) {
  if (stopped_) return {};
  for (const char c : text) {
    Take(c);
    if (best_ && IsSettled()) return Stop();
  }
  // Whatever begins a stop, or the best match, must wait.
  size_t keep_from = best_ ? best_->begin : seen_;
  for (const Pattern& p : patterns_) keep_from = std::min(keep_from, seen_ - p.matched);
  return {Release(keep_from), std::nullopt};
}

StopStrings::Result StopStrings::Finish() {
  if (stopped_) return {};
  if (best_) return Stop();
  return {Release(seen_), std::nullopt};
}

}  // namespace isobit
