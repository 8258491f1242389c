#ifndef ISOBIT_TOOLS_ISOBIT_PROGRESS_BAR_H_
#define ISOBIT_TOOLS_ISOBIT_PROGRESS_BAR_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace isobit {

// One line on stderr that is drawn over and over, at most ten times a second, and removed at the
// end. For terminals. Not thread-safe.
class ProgressBar {
 public:
  // `total` 0: unknown, only the text is shown.
  explicit ProgressBar(int64_t total) : total_(total) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(int64_t done, std::string_view text);

  // "[#####     ]  50%  text", as it stands on the terminal.
  static std::string Line(int64_t done, int64_t total, std::string_view text);

 private:
  const int64_t total_;
  std::chrono::steady_clock::time_point next_{};
  bool drawn_ = false;
};

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_PROGRESS_BAR_H_
