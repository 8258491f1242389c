#ifndef ISOBIT_TESTS_TOOLS_ISOBIT_PROCESS_H_
#define ISOBIT_TESTS_TOOLS_ISOBIT_PROCESS_H_

// The isobit command as another process, for tests from outside.

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/isobit/temp_folder.h"

namespace isobit {

// The built command.
std::string IsobitPath();

// A program that tools/setup.sh puts below build/, where it may be missing.
std::string ProgramPath(const std::string& name);
inline constexpr char kOpenAiPython[] = "venv-openai/bin/python";
inline constexpr char kLmEvalPrograms[] = "venv-lm-eval/bin";
inline constexpr char kNginx[] = "programs/usr/sbin/nginx";
inline constexpr char kPromtool[] = "programs/usr/bin/promtool";

struct ProcessResult {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string out;
  std::string err;
};

// A process whose stdout and stderr go to files of `folder`. Killed on destruction if still there.
class Process {
 public:
  // stdin reads `input_path`, or nothing if that is empty; with "|", what Send() writes. `output`
  // replaces the file for stdout.
  Process(const TempFolder& folder, std::vector<std::string> command,
          const std::string& input_path = "", const std::string& output = "");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Send(std::string_view text);
  void CloseInput();
  void Signal(int signal) const;
  // Waits until stdout so far satisfies `ready`, at most a minute. False if it never did.
  bool WaitForOutput(bool (*ready)(const std::string& out)) const;
  bool Running() const;
  ProcessResult Wait();

 private:
  std::string out_path_, err_path_;
  pid_t pid_ = -1;
  int input_ = -1;
};

// Runs a command to its end.
ProcessResult RunProcess(const TempFolder& folder, std::vector<std::string> command,
                         std::string_view input = "");

}  // namespace isobit

#endif  // ISOBIT_TESTS_TOOLS_ISOBIT_PROCESS_H_
