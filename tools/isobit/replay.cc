// isobit replay: runs recorded requests again and compares every bit.

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/receipt/receipt.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"

namespace isobit {
namespace {

struct ReplayOptions {
  ModelOptions model;
  std::vector<std::string> receipts;
};

// A few at a time: they run together, and receipts of any number take bounded memory.
constexpr size_t kReceiptsTogether = 256;

size_t TokensOf(const Completion& completion) {
  size_t tokens = 0;
  for (const Choice& choice : completion.choices) tokens += choice.token_ids.size();
  return tokens;
}

// What came of one receipt, as the user reads it.
struct Verdict {
  ExitCode code;
  std::string text;
};

Verdict Judge(const Receipt& receipt, const absl::StatusOr<Completion>& replayed) {
  if (!replayed.ok()) {
    return {kExitFailed, absl::StrCat("FAILED   ", replayed.status().message())};
  }
  const absl::Status difference = Compare(receipt, *replayed);
  if (!difference.ok()) return {kExitFailed, absl::StrCat("DIFFERS  ", difference.message())};
  return {kExitOk, absl::StrCat("equal    ", TokensOf(*replayed), " tokens, digest ",
                                replayed->digest.ToHex())};
}

// Replays receipts[begin, end); prints a line for each and returns the worst of their codes.
ExitCode ReplaySome(Engine& engine, const std::vector<std::string>& paths) {
  struct Replay {
    std::string path;
    Receipt receipt;
  };
  std::vector<Replay> replays;
  std::vector<Request> requests;
  ExitCode code = kExitOk;
  const auto note = [&code](const std::string& path, const Verdict& verdict) {
    std::printf("%s: %s\n", path.c_str(), verdict.text.c_str());
    code = std::max(code, verdict.code);
  };
  for (const std::string& path : paths) {
    absl::StatusOr<Receipt> receipt = ReadReceipt(path);
    if (!receipt.ok()) {
      LogError(receipt.status());
      code = std::max(code, kExitUnusable);
      continue;
    }
    const absl::Status replayable = CheckReplayable(*receipt, engine.model().digest());
    if (!replayable.ok()) {
      note(path, {kExitFailed, absl::StrCat("DIFFERS  ", replayable.message())});
      continue;
    }
    requests.push_back(RequestOf(*receipt));
    replays.push_back({path, *std::move(receipt)});
  }
  const std::vector<absl::StatusOr<Completion>> completions = engine.Generate(std::move(requests));
  for (size_t i = 0; i < replays.size(); ++i) {
    note(replays[i].path, Judge(replays[i].receipt, completions[i]));
  }
  return code;
}

ExitCode RunReplay(const ReplayOptions& options) {
  ExitCode code;
  const std::unique_ptr<Engine> engine = StartEngine(options.model, code);
  if (engine == nullptr) return code;
  const std::vector<std::string>& paths = options.receipts;
  for (size_t begin = 0; begin < paths.size(); begin += kReceiptsTogether) {
    const size_t end = std::min(paths.size(), begin + kReceiptsTogether);
    code = std::max(code, ReplaySome(*engine, {paths.begin() + static_cast<ptrdiff_t>(begin),
                                               paths.begin() + static_cast<ptrdiff_t>(end)}));
    if (std::fflush(stdout) != 0) {
      LogError("cannot write standard output");
      return kExitUnusable;
    }
  }
  return code;
}

}  // namespace

Command AddReplay(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "replay",
      "Run what receipts record again, all together, and compare every bit. Prints for each "
      "\"equal\" or the first difference; the exit code is 0 or 1.");
  const auto options = std::make_shared<ReplayOptions>();
  command->add_option("receipts", options->receipts, "Receipt files")->required();
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunReplay(*options); }};
}

}  // namespace isobit
