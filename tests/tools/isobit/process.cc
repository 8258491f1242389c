#include "tests/tools/isobit/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

namespace isobit {
namespace {

// In the child: makes `descriptor` this file.
void Redirect(const std::string& path, int flags, int descriptor) {
  const int fd = open(path.c_str(), flags, 0600);
  if (fd < 0 || dup2(fd, descriptor) < 0) _exit(127);
  close(fd);
}

}  // namespace

std::string IsobitPath() { return ISOBIT_BINARY_DIR "/isobit"; }

std::string ProgramPath(const std::string& name) { return ISOBIT_SOURCE_DIR "/build/" + name; }

Process::Process(const TempFolder& folder, std::vector<std::string> command,
                 const std::string& input_path, const std::string& output) {
  static std::atomic<int> counter = 0;
  const std::string number = std::to_string(counter++);
  out_path_ = output.empty() ? folder.Path("stdout." + number) : output;
  err_path_ = folder.Path("stderr." + number);
  int ends[2] = {-1, -1};
  if (input_path == "|") {
    EXPECT_EQ(pipe(ends), 0);
  }
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    if (ends[0] >= 0) {
      dup2(ends[0], STDIN_FILENO);
      close(ends[0]);
      close(ends[1]);
    } else {
      Redirect(input_path.empty() ? "/dev/null" : input_path, O_RDONLY, STDIN_FILENO);
    }
    Redirect(out_path_, O_WRONLY | O_CREAT, STDOUT_FILENO);
    Redirect(err_path_, O_WRONLY | O_CREAT, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  if (ends[0] >= 0) close(ends[0]);
  input_ = ends[1];
}

Process::~Process() {
  CloseInput();
  if (pid_ > 0) {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void Process::Send(std::string_view text) {
  EXPECT_EQ(write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void Process::CloseInput() {
  if (input_ >= 0) close(input_);
  input_ = -1;
}

void Process::Signal(int signal) const { kill(pid_, signal); }

bool Process::WaitForOutput(bool (*ready)(const std::string& out)) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline) {
    if (ready(TempFolder::Read(out_path_))) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

bool Process::Running() const {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

ProcessResult Process::Wait() {
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  ProcessResult result;
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (std::filesystem::is_regular_file(out_path_)) result.out = TempFolder::Read(out_path_);
  result.err = TempFolder::Read(err_path_);
  return result;
}

ProcessResult RunProcess(const TempFolder& folder, std::vector<std::string> command,
                         std::string_view input) {
  static std::atomic<int> counter = 0;
  const std::string path =
      input.empty() ? "" : folder.Write("stdin." + std::to_string(counter++), input);
  return Process(folder, std::move(command), path).Wait();
}

}  // namespace isobit
