// isobit audit: does this machine repeat its own results? What --audit asks of a share of the
// requests while an engine serves, asked of random requests for as long as one likes.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "invariance/repeat_check.h"
#include "tools/isobit/command.h"
#include "tools/isobit/event.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"

namespace isobit {
namespace {

struct AuditOptions {
  ModelOptions model;
  double seconds = 60;
  int64_t requests = 32;
  uint64_t first_round = 1;
};

ExitCode RunAudit(const AuditOptions& options) {
  using Clock = std::chrono::steady_clock;
  ModelOptions model = options.model;
  model.engine.audit_share = 0;  // all of it is repeated here
  ExitCode code;
  const std::unique_ptr<Engine> engine = StartEngine(model, code);
  if (engine == nullptr) return code;
  CatchInterrupts();
  int64_t rounds = 0, tokens = 0, different = 0;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (!Interrupted() && (rounds == 0 || seconds() < options.seconds)) {
    const uint64_t seed = options.first_round + static_cast<uint64_t>(rounds);
    const absl::StatusOr<RepeatRound> round = RunTwice(*engine, seed, options.requests);
    if (!round.ok()) {
      LogError(round.status());
      return kExitUnusable;
    }
    ++rounds;
    tokens += round->tokens;
    if (round->ok()) continue;
    ++different;
    std::printf("FAIL  round %llu  %s\n", static_cast<unsigned long long>(seed),
                round->first_difference.c_str());
  }
  std::printf("%s\n",
              absl::StrFormat("%d %s, %d tokens drawn twice in %.1f s, %d differ", rounds,
                              rounds == 1 ? "round" : "rounds", tokens, seconds(), different)
                  .c_str());
  if (!FlushStandardOutput()) return kExitUnusable;
  if (different > 0) {
    LogError("this machine does not repeat its own results");
    return kExitFailed;
  }
  return Interrupted() ? kExitInterrupted : kExitOk;
}

}  // namespace

Command AddAudit(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "audit",
      "Find out whether this machine repeats its own results: run random requests together, draw "
      "every token again from one prefill a completion, compare every bit, and go on until the "
      "time is over. A device that makes mistakes now and then shows up; the exit code is 1 then. "
      "run, batch and serve do the same to a share of their requests (--audit).");
  const auto options = std::make_shared<AuditOptions>();
  command->add_option("--seconds", options->seconds, "Begin no further round after this time")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command->add_option("--requests", options->requests, "Requests in a round")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--first-round", options->first_round, "Seed of the first round's requests")
      ->capture_default_str();
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunAudit(*options); }};
}

}  // namespace isobit
