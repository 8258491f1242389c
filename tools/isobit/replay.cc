// isobit replay: runs recorded requests again and compares every bit.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/receipt/receipt.h"
#include "runtime/receipt/spot_check.h"
#include "tools/isobit/command.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"

namespace isobit {
namespace {

struct ReplayOptions {
  ModelOptions model;
  std::vector<std::string> receipts;
  std::string positions;  // as it was written: "5%"
  double share = 1;       // of tokens that are drawn again
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

struct Replay {
  std::string path;
  Receipt receipt;
};

// A part of a receipt's tokens, drawn again.
struct SpotCheck {
  absl::Status intact;  // of the receipt in itself
  int64_t tokens = 0;
  // Written by the engine's thread until all is done.
  absl::Status failure;     // a choice could not be run
  absl::Status difference;  // the first one of the first choice that has any
};

Verdict Judge(const Receipt& receipt, const SpotCheck& check) {
  if (!check.intact.ok()) return {kExitFailed, absl::StrCat("DIFFERS  ", check.intact.message())};
  if (!check.failure.ok()) return {kExitFailed, absl::StrCat("FAILED   ", check.failure.message())};
  if (!check.difference.ok()) {
    return {kExitFailed, absl::StrCat("DIFFERS  ", check.difference.message())};
  }
  return {kExitOk, absl::StrCat("equal    ", check.tokens, " of ", TokensOf(receipt.completion),
                                " tokens drawn again, digest ", receipt.completion.digest.ToHex())};
}

void Submit(Engine& engine, const Receipt& receipt, size_t choice, double share, SpotCheck& check) {
  const auto count = static_cast<int64_t>(receipt.completion.choices[choice].token_ids.size());
  if (count == 0) return;
  std::random_device device;  // nobody can know beforehand which tokens are looked at
  std::vector<int64_t> at = PickTokens(count, share, uint64_t{device()} << 32 | device());
  check.tokens += static_cast<int64_t>(at.size());
  RequestCallbacks callbacks;
  callbacks.on_redrawn = [&receipt, &check, choice](int64_t index, const SampledToken& again) {
    check.difference.Update(CompareRedrawn(receipt, choice, index, again));
  };
  callbacks.on_done = [&check](const absl::StatusOr<Completion>& done) {
    check.failure.Update(done.status());
  };
  const auto handle = engine.Submit(RedrawOf(receipt, choice, std::move(at)), std::move(callbacks));
  if (!handle.ok()) check.intact.Update(handle.status());
}

std::vector<Verdict> SpotCheckAll(Engine& engine, const std::vector<Replay>& replays,
                                  double share) {
  std::vector<SpotCheck> checks(replays.size());
  for (size_t i = 0; i < replays.size(); ++i) {
    const Receipt& receipt = replays[i].receipt;
    checks[i].intact = CheckIntact(receipt);
    if (!checks[i].intact.ok()) continue;
    for (size_t choice = 0; choice < receipt.completion.choices.size(); ++choice) {
      Submit(engine, receipt, choice, share, checks[i]);
    }
  }
  engine.Drain();
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < replays.size(); ++i) {
    verdicts.push_back(Judge(replays[i].receipt, checks[i]));
  }
  return verdicts;
}

std::vector<Verdict> ReplayAll(Engine& engine, const std::vector<Replay>& replays) {
  std::vector<Request> requests;
  for (const Replay& replay : replays) requests.push_back(RequestOf(replay.receipt));
  const std::vector<absl::StatusOr<Completion>> completions = engine.Generate(std::move(requests));
  std::vector<Verdict> verdicts;
  for (size_t i = 0; i < replays.size(); ++i) {
    verdicts.push_back(Judge(replays[i].receipt, completions[i]));
  }
  return verdicts;
}

// Replays some receipts; prints a line for each and returns the worst of their codes.
ExitCode ReplaySome(Engine& engine, const std::vector<std::string>& paths,
                    const ReplayOptions& options) {
  std::vector<Replay> replays;
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
    replays.push_back({path, *std::move(receipt)});
  }
  const std::vector<Verdict> verdicts = options.positions.empty()
                                            ? ReplayAll(engine, replays)
                                            : SpotCheckAll(engine, replays, options.share);
  for (size_t i = 0; i < replays.size(); ++i) note(replays[i].path, verdicts[i]);
  return code;
}

// "5%" or "100%". Empty: fine; else what is wrong.
std::string ReadShare(const std::string& text, double* share) {
  double percent = -1;
  const char* const end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, percent);
  if (read.ec != std::errc() || read.ptr + 1 != end || *read.ptr != '%' || !(percent > 0) ||
      percent > 100) {
    return absl::StrCat("must be a percentage above 0% and up to 100%, got ", text);
  }
  *share = percent / 100;
  return "";
}

ExitCode RunReplay(const ReplayOptions& options) {
  ExitCode code;
  const std::unique_ptr<Engine> engine = StartEngine(options.model, code);
  if (engine == nullptr) return code;
  const std::vector<std::string>& paths = options.receipts;
  for (size_t begin = 0; begin < paths.size(); begin += kReceiptsTogether) {
    const size_t end = std::min(paths.size(), begin + kReceiptsTogether);
    code = std::max(code, ReplaySome(*engine,
                                     {paths.begin() + static_cast<ptrdiff_t>(begin),
                                      paths.begin() + static_cast<ptrdiff_t>(end)},
                                     options));
    if (!FlushStandardOutput()) return kExitUnusable;
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
  command
      ->add_option("--positions", options->positions,
                   "Spot checks: a share of each receipt's tokens, like 5%, drawn again from one "
                   "prefill over its prompt and output")
      ->check([options](const std::string& text) { return ReadShare(text, &options->share); });
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunReplay(*options); }};
}

}  // namespace isobit
