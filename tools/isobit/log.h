#ifndef ISOBIT_TOOLS_ISOBIT_LOG_H_
#define ISOBIT_TOOLS_ISOBIT_LOG_H_

// Messages for the person at the terminal: on stderr as "isobit: error: ...", or in a file with
// time and level. Thread-safe once set up.

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace isobit {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

// Messages less urgent than `level` are dropped. An empty file name is stderr; errors go to stderr
// in any case. Call before other threads log.
absl::Status SetUpLog(LogLevel level, const std::string& file);

void Log(LogLevel level, std::string_view message);

inline void LogError(std::string_view message) { Log(LogLevel::kError, message); }
inline void LogError(const absl::Status& status) {
  Log(LogLevel::kError, {status.message().data(), status.message().size()});
}
inline void LogWarning(std::string_view message) { Log(LogLevel::kWarn, message); }
inline void LogInfo(std::string_view message) { Log(LogLevel::kInfo, message); }
inline void LogDebug(std::string_view message) { Log(LogLevel::kDebug, message); }

// Flushes standard output. False, with an error in the log, if something that was printed could not
// be written.
bool FlushStandardOutput();

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_LOG_H_
