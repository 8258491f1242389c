// isobit check: the promise on this model and machine, as a table.

#include "invariance/check.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"

namespace isobit {
namespace {

struct CheckCommandOptions {
  ModelOptions model;
  bool full = false;
};

void PrintRow(const CheckRow& row) {
  std::printf("%s\n",
              absl::StrFormat("%-5s %-34s %12d values equal  %6.1f s%s%s", row.ok() ? "ok" : "FAIL",
                              row.name, row.compared, row.seconds,
                              row.first_difference.empty() ? "" : "  ", row.first_difference)
                  .c_str());
  std::fflush(stdout);
}

ExitCode RunCheck(const CheckCommandOptions& options) {
  if (const ExitCode code = SetUpLog(options.model); code != kExitOk) return code;
  const auto make_backend = [&options](int threads) {
    ModelOptions with_threads = options.model;
    if (threads != 0) with_threads.cpu.threads = threads;
    return CreateBackend(with_threads);
  };
  CheckOptions check;
  check.full = options.full;
  check.on_row = PrintRow;
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateBackend(options.model);
  if (backend.ok() && (*backend)->Info().kind != "cpu") check.thread_counts.clear();
  backend = absl::CancelledError();  // one at a time
  const absl::StatusOr<CheckReport> report = CheckModel(options.model.model, make_backend, check);
  if (!report.ok()) {
    LogError(report.status());
    return kExitUnusable;
  }
  int64_t failed = 0;
  for (const CheckRow& row : report->rows) failed += row.ok() ? 0 : 1;
  std::printf("%s\n", absl::StrFormat("%d rows, %d failed", report->rows.size(), failed).c_str());
  if (report->rows.empty()) LogError("nothing was compared");
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    LogError("cannot write standard output");
    return kExitUnusable;
  }
  return report->ok() ? kExitOk : kExitFailed;
}

}  // namespace

Command AddCheck(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "check",
      "Run fixed requests alone and in every kind of company, order, chunking, page size, cache "
      "state and thread count, and compare every bit, full logits included. Prints a row for each; "
      "the exit code is 1 if any differs or compared nothing.");
  const auto options = std::make_shared<CheckCommandOptions>();
  command->add_flag("--full", options->full, "Longer prompts and outputs, and every row");
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunCheck(*options); }};
}

}  // namespace isobit
