// isobit batch: requests in, completions out, in the order of the requests.

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/api/request_json.h"
#include "tools/isobit/batch_run.h"
#include "tools/isobit/command.h"
#include "tools/isobit/event.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/resume.h"

namespace isobit {
namespace {

struct BatchOptions {
  ModelOptions model;
  std::string input;
  std::string output = "-";
  std::string receipts;
  bool resume = false;
};

int64_t FileSize(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? int64_t{status.st_size} : 0;
}

ExitCode Fail(const absl::Status& status, ExitCode code = kExitUnusable) {
  LogError(status);
  return code;
}

// Runs what is left to answer and reports how it went.
ExitCode Answer(const BatchOptions& options, Engine& engine, LineReader& input,
                OutputFile& output) {
  Answered before;
  if (options.resume) {
    const absl::StatusOr<Answered> answered = ResumeAfter(engine.model().digest(), input, output);
    if (!answered.ok()) return Fail(answered.status());
    before = *answered;
  } else if (const absl::Status status = output.Truncate(0); !status.ok()) {
    return Fail(status);
  }

  const auto begin = std::chrono::steady_clock::now();
  absl::Status status;
  BatchCounts counts;
  {
    std::optional<ProgressBar> progress;
    if (isatty(STDERR_FILENO)) progress.emplace(FileSize(input.fd()));
    BatchRun run(engine, input, output, options.receipts, progress ? &*progress : nullptr);
    status = run.Run();
    counts = run.counts();
  }
  status.Update(output.Sync());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::fprintf(
      stderr, "%s\n",
      absl::StrFormat("%d requests answered%s, %d failed, %d tokens in %.1f s (%.1f tok/s)",
                      counts.answered,
                      options.resume ? absl::StrCat(" and ", before.requests, " before") : "",
                      counts.failed + before.failed, counts.generated_tokens, seconds.count(),
                      static_cast<double>(counts.generated_tokens) / seconds.count())
          .c_str());
  if (!status.ok()) return Fail(status);
  if (Interrupted()) {
    LogError("interrupted; --resume goes on from here");
    return kExitInterrupted;
  }
  const ExitCode audited = ReportAudits(engine);
  return counts.failed + before.failed == 0 ? audited : kExitFailed;
}

ExitCode RunBatch(const BatchOptions& options) {
  // Files first: a wrong name is found before the model is loaded, and what stands in the output
  // is left alone until the model is there.
  absl::StatusOr<LineReader> input = LineReader::Open(options.input, kMaxRequestBytes);
  if (!input.ok()) return Fail(input.status());
  absl::StatusOr<OutputFile> output = OutputFile::Open(options.output);
  if (!output.ok()) return Fail(output.status());
  if (output->IsSameFileAs(input->fd())) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat(options.output, " is the input and can't be the output")),
                kExitWrongUse);
  }
  if (options.resume && !output->is_regular()) {
    return Fail(absl::InvalidArgumentError(
                    absl::StrCat("--resume needs an output file, got ", output->name())),
                kExitWrongUse);
  }
  if (!options.receipts.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.receipts, error);
    if (error) {
      return Fail(absl::UnavailableError(
          absl::StrCat("cannot create ", options.receipts, ": ", error.message())));
    }
  }
  ExitCode exit_code;
  const std::unique_ptr<Engine> engine = StartEngine(options.model, exit_code);
  if (engine == nullptr) return exit_code;
  CatchInterrupts();
  return Answer(options, *engine, *input, *output);
}

}  // namespace

Command AddBatch(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "batch",
      "Answer requests, one JSON object a line, in their order. A line that is no valid request "
      "is answered with an error and the rest goes on; the exit code is 1 then.");
  const auto options = std::make_shared<BatchOptions>();
  command->add_option("input", options->input, "Requests, IN.jsonl; - is standard input")
      ->required();
  command
      ->add_option("-o,--output", options->output, "Completions, OUT.jsonl; - is standard output")
      ->capture_default_str();
  command->add_flag("--resume", options->resume,
                    "Keep the whole lines of OUT and answer the requests after them");
  command->add_option("--receipts", options->receipts,
                      "Write a receipt for every request into this folder");
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunBatch(*options); }};
}

}  // namespace isobit
