#include "tools/isobit/log.h"

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace isobit {
namespace {

struct LogState {
  std::mutex mutex;
  LogLevel level = LogLevel::kWarn;
  FILE* file = nullptr;  // null: stderr
};

LogState& State() {
  static LogState* const state = new LogState;  // never destroyed: threads may log to the end
  return *state;
}

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarn:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "";
}

void Write(FILE* file, const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

}  // namespace

absl::Status SetUpLog(LogLevel level, const std::string& file) {
  LogState& state = State();
  const std::lock_guard lock(state.mutex);
  state.level = level;
  if (state.file != nullptr) std::fclose(std::exchange(state.file, nullptr));
  if (file.empty()) return absl::OkStatus();
  state.file = std::fopen(file.c_str(), "ae");
  if (state.file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open --log-file ", file));
  }
  return absl::OkStatus();
}

void Log(LogLevel level, std::string_view message) {
  LogState& state = State();
  const std::lock_guard lock(state.mutex);
  if (level > state.level) return;
  const std::string text(message);
  if (state.file != nullptr) {
    const std::string now =
        absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
    Write(state.file, absl::StrCat(now, " ", NameOf(level), " ", text, "\n"));
  }
  if (state.file == nullptr || level == LogLevel::kError) {
    Write(stderr, absl::StrCat("isobit: ", NameOf(level), ": ", text, "\n"));
  }
}

bool FlushStandardOutput() {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return true;
  LogError("cannot write standard output");
  return false;
}

}  // namespace isobit
