#include "tools/isobit/progress_bar.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace isobit {
namespace {

constexpr char kEraseLine[] = "\r\x1b[K";

void Draw(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string ProgressBar::Line(int64_t done, int64_t total, std::string_view text) {
  constexpr int64_t kWidth = 30;
  if (total <= 0) return std::string(text);
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const auto filled = static_cast<size_t>(share * kWidth);
  return absl::StrFormat("[%s%s] %3d%%  %s", std::string(filled, '#'),
                         std::string(kWidth - filled, ' '), static_cast<int>(share * 100),
                         std::string(text));
}

void ProgressBar::Show(int64_t done, std::string_view text) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  drawn_ = true;
  Draw(absl::StrCat(kEraseLine, Line(done, total_, text)));
}

ProgressBar::~ProgressBar() {
  if (drawn_) Draw(kEraseLine);
}

}  // namespace isobit
