// isobit check: the promise on this model and machine, as a table.

#include "invariance/check.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/numerics/contract_version.h"
#include "runtime/receipt/atomic_file.h"
#include "tools/isobit/check_progress.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

struct CheckCommandOptions {
  ModelOptions model;
  bool full = false;
  int64_t schedules = 1;
  uint64_t first_schedule = 1;
  std::string schedule;                       // a file to run instead
  std::string save = "isobit-schedule.json";  // where a failed schedule goes
  std::string progress;                       // where rows that are done are kept
};

void PrintRow(const CheckRow& row) {
  std::printf("%s\n",
              absl::StrFormat("%-5s %-34s %12d values equal  %6.1f s%s%s", row.ok() ? "ok" : "FAIL",
                              row.name, row.compared, row.seconds,
                              row.first_difference.empty() ? "" : "  ", row.first_difference)
                  .c_str());
  std::fflush(stdout);
}

void SaveFailed(const std::string& path, uint64_t seed, const RequestSchedule& shrunk) {
  const absl::Status written = WriteFileAtomically(path, ScheduleToJson(shrunk));
  if (!written.ok()) return LogError(written);
  LogError(absl::StrCat("random schedule ", seed, " gives other bits; shrunk to ",
                        shrunk.requests.size(), " requests in ", path,
                        ", to be run again with --schedule"));
}

// Runs one schedule of a file.
ExitCode RunScheduleFile(const CheckCommandOptions& options) {
  const absl::StatusOr<RequestSchedule> schedule = ReadSchedule(options.schedule);
  if (!schedule.ok()) {
    LogError(schedule.status());
    return kExitUnusable;
  }
  ExitCode code;
  std::unique_ptr<Model> model = LoadModel(options.model, code);
  if (model == nullptr) return code;
  if (const absl::Status s = ValidateSchedule(*schedule, *model); !s.ok()) {
    LogError(absl::StrCat(options.schedule, ": ", s.message()));
    return kExitUnusable;
  }
  const ScheduleReport report = RunAndCompare(model, *schedule);
  const CheckRow row = {.name = absl::StrCat(schedule->requests.size(), " requests as scheduled"),
                        .compared = report.compared,
                        .first_difference = report.difference};
  PrintRow(row);
  return row.ok() ? kExitOk : kExitFailed;
}

// With --progress: takes up what was done before, and shows it.
absl::Status OpenProgress(const CheckCommandOptions& options, const Model& model,
                          std::optional<CheckProgress>& progress) {
  if (options.progress.empty()) return absl::OkStatus();
  const DeviceInfo device = model.backend().Info();
  absl::StatusOr<CheckProgress> opened = CheckProgress::Open(
      options.progress,
      {{"model", model.digest().ToHex()},
       {"build", kBuildName},
       {"contract", kContractVersion},
       {"device", absl::StrCat(device.kind, ", ", device.name, ", ", device.instructions)},
       {"full", options.full},
       {"schedules", options.schedules},
       {"first_schedule", options.first_schedule}});
  if (!opened.ok()) return opened.status();
  progress = *std::move(opened);
  for (const CheckRow& row : progress->rows()) PrintRow(row);
  if (!progress->rows().empty()) {
    std::printf("%s\n", absl::StrCat(progress->rows().size(),
                                     " rows were run before, according to ", options.progress)
                            .c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

ExitCode RunCheck(const CheckCommandOptions& options) {
  if (!options.schedule.empty()) return RunScheduleFile(options);
  if (const ExitCode code = SetUpLog(options.model); code != kExitOk) return code;
  const auto make_backend = [&options](int threads) {
    ModelOptions with_threads = options.model;
    if (threads != 0) with_threads.cpu.threads = threads;
    return CreateBackend(with_threads);
  };
  CheckOptions check;
  check.full = options.full;
  check.schedules = options.schedules;
  check.first_schedule = options.first_schedule;
  check.on_failed_schedule = [&options](uint64_t seed, const RequestSchedule& shrunk) {
    SaveFailed(options.save, seed, shrunk);
  };
  std::optional<CheckProgress> progress;
  check.on_model = [&options, &progress](const Model& model) {
    return OpenProgress(options, model, progress);
  };
  check.is_done = [&progress](const std::string& name) {
    return progress.has_value() && progress->IsDone(name);
  };
  check.on_row = [&progress](const CheckRow& row) {
    PrintRow(row);
    if (!progress.has_value()) return;
    if (const absl::Status s = progress->Add(row); !s.ok()) LogError(s);
  };
  const absl::StatusOr<CheckReport> report = CheckModel(options.model.model, make_backend, check);
  if (!report.ok()) {
    LogError(report.status());
    return kExitUnusable;
  }
  int64_t failed = 0;
  for (const CheckRow& row : report->rows) failed += row.ok() ? 0 : 1;
  const size_t rows =
      failed == 0 && progress.has_value() ? progress->rows().size() : report->rows.size();
  std::printf("%s\n", absl::StrFormat("%d rows, %d failed", rows, failed).c_str());
  if (report->rows.empty()) LogError("nothing was compared");
  if (!FlushStandardOutput()) return kExitUnusable;
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
  command->add_flag(
      "--full", options->full,
      "Longer prompts and outputs, every batch size up to 300 with a row at every "
      "place, one request in every situation; takes many times as long (see --progress)");
  command->add_option("--progress", options->progress,
                      "Keep the rows that are done in this file, and leave out those that it has: "
                      "a long check can be interrupted and goes on");
  command->add_option("--schedules", options->schedules, "Random schedules to run (--full: 20x)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  command->add_option("--first-schedule", options->first_schedule, "Seed of the first of them")
      ->capture_default_str();
  command
      ->add_option("--save-schedule", options->save,
                   "A random schedule that gives other bits is shrunk and written here")
      ->capture_default_str();
  command->add_option("--schedule", options->schedule,
                      "Run the schedule of this file and nothing else");
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunCheck(*options); }};
}

}  // namespace isobit
