// isobit run: one completion, or a conversation, streamed to the terminal.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/receipt/receipt.h"
#include "tools/isobit/command.h"
#include "tools/isobit/event.h"
#include "tools/isobit/line_reader.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/sampling_options.h"
#include "tools/isobit/stream.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

constexpr size_t kMaxPromptBytes = size_t{16} << 20;
// What --max-tokens is if it isn't given.
constexpr int64_t kTextTokens = 128, kChatTokens = 1024;

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::optional<std::string> prompt;
  std::optional<std::string> file;
  bool chat = false;
  std::optional<std::string> system;
  std::string receipt;
};

ExitCode Fail(const absl::Status& status, ExitCode code) {
  LogError(status);
  return code;
}

// A request that can't be run is wrong use of the command line; anything else lies with the model
// or with where the text goes.
ExitCode CodeOf(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsOutOfRange(status) ? kExitWrongUse
                                                                       : kExitUnusable;
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(
      path == "-" ? fdopen(dup(STDIN_FILENO), "rb") : std::fopen(path.c_str(), "rb"),
      [](FILE* f) { return f == nullptr ? 0 : std::fclose(f); });
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  std::string text;
  char buffer[1 << 14];
  while (const size_t read = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    text.append(buffer, read);
    if (text.size() > kMaxPromptBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": a prompt must be at most ", kMaxPromptBytes, " bytes long"));
    }
  }
  if (std::ferror(file.get())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return text;
}

absl::Status SaveReceipt(const std::string& path, const Model& model,
                         const SamplingParams& sampling, const Completion& completion) {
  if (completion.choices.front().finish_reason == FinishReason::kCancelled) {
    LogWarning("no receipt: the completion was cancelled");
    return absl::OkStatus();
  }
  const absl::StatusOr<Receipt> receipt =
      MakeReceipt(kBuildName, model.config().name, model.digest(), sampling, completion);
  if (!receipt.ok()) return receipt.status();
  return WriteReceipt(path, *receipt);
}

// Streams one request to stdout, then its receipt if asked for and its summary on stderr.
absl::StatusOr<Streamed> RunOnce(Engine& engine, Request request, const std::string& receipt_path) {
  if (!receipt_path.empty()) AskForReceipt(request.sampling);
  const SamplingParams sampling = request.sampling;
  absl::StatusOr<OutputFile> output = OutputFile::Open("-");
  if (!output.ok()) return output.status();
  absl::StatusOr<Streamed> streamed = StreamText(engine, std::move(request), *output);
  if (!streamed.ok()) return streamed;
  if (!receipt_path.empty()) {
    const absl::Status status =
        SaveReceipt(receipt_path, engine.model(), sampling, streamed->completion);
    if (!status.ok()) return status;
  }
  std::fprintf(stderr, "%s\n", Summary(*streamed).c_str());
  return streamed;
}

ExitCode RunText(const RunOptions& options, Engine& engine, Request request) {
  const absl::StatusOr<Streamed> streamed = RunOnce(engine, std::move(request), options.receipt);
  if (!streamed.ok()) return Fail(streamed.status(), CodeOf(streamed.status()));
  return Interrupted() ? kExitInterrupted : kExitOk;
}

// The next thing that the user says: a line of stdin. None at the end, or after Ctrl-C.
std::optional<std::string> ReadTurn(LineReader& input) {
  if (isatty(STDIN_FILENO)) std::fputs("> ", stderr);
  while (!Interrupted()) {
    if (std::optional<Line> line = input.Next()) {
      if (!line->too_long) return std::move(line->text);
      LogError(absl::StrCat("line ", line->number, " is longer than ", kMaxPromptBytes, " bytes"));
      return std::nullopt;
    }
    if (input.at_end()) return std::nullopt;
    if (WaitForAny({InterruptDescriptor(), input.fd()}) != input.fd()) continue;
    if (const absl::Status status = input.Fill(); !status.ok()) LogError(status);
  }
  return std::nullopt;
}

// A conversation. With -p, what the user says first and alone; else every line of stdin. On a
// terminal Ctrl-C ends an answer, and at the prompt the conversation.
ExitCode RunChat(const RunOptions& options, Engine& engine, Request request) {
  std::vector<ChatMessage> messages;
  if (options.system.has_value()) messages.push_back({"system", *options.system});
  LineReader input(STDIN_FILENO, "standard input", kMaxPromptBytes);
  const bool single = options.prompt.has_value();
  std::optional<std::string> turn = single ? options.prompt : ReadTurn(input);
  while (turn.has_value()) {
    messages.push_back({"user", *std::move(turn)});
    request.prompt = messages;
    const absl::StatusOr<Streamed> streamed = RunOnce(engine, request, options.receipt);
    if (!streamed.ok()) return Fail(streamed.status(), CodeOf(streamed.status()));
    if (single) break;
    messages.push_back({"assistant", streamed->completion.choices.front().text});
    if (Interrupted() && isatty(STDIN_FILENO)) ClearInterrupt();
    turn = ReadTurn(input);
  }
  if (!single && isatty(STDIN_FILENO)) std::fputs("\n", stderr);
  return Interrupted() && !isatty(STDIN_FILENO) ? kExitInterrupted : kExitOk;
}

ExitCode Run(const RunOptions& options) {
  Request request;
  request.id = "run";
  // Wrong use is said before a model is loaded.
  absl::StatusOr<SamplingParams> sampling = SamplingOf(options.sampling);
  if (!sampling.ok()) return Fail(sampling.status(), kExitWrongUse);
  request.sampling = *std::move(sampling);
  if (!options.chat && !options.prompt.has_value() && !options.file.has_value()) {
    return Fail(absl::InvalidArgumentError("run needs -p TEXT, -f FILE or --chat"), kExitWrongUse);
  }
  if (options.file.has_value()) {
    absl::StatusOr<std::string> text = ReadWhole(*options.file);
    if (!text.ok()) return Fail(text.status(), kExitUnusable);
    request.prompt = *std::move(text);
  } else if (options.prompt.has_value()) {
    request.prompt = *options.prompt;
  }
  ExitCode exit_code;
  const std::unique_ptr<Engine> engine = StartEngine(options.model, exit_code);
  if (engine == nullptr) return exit_code;
  CatchInterrupts();
  Recommend(engine->model().generation_defaults(), options.sampling, request.sampling);
  if (!options.sampling.max_tokens.has_value()) {
    request.sampling.max_tokens =
        std::min(options.chat ? kChatTokens : kTextTokens, engine->options().max_model_len);
  }
  return options.chat ? RunChat(options, *engine, std::move(request))
                      : RunText(options, *engine, std::move(request));
}

}  // namespace

Command AddRun(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Complete one text, or hold a conversation, streamed to standard output. Digest and speed "
      "come last, on standard error.");
  const auto options = std::make_shared<RunOptions>();
  CLI::Option* prompt =
      command->add_option("-p,--prompt", options->prompt,
                          "Text to complete; with --chat, the one thing that the user says");
  CLI::Option* file =
      command->add_option("-f,--file", options->file, "Complete the text in this file (-: stdin)");
  CLI::Option* chat =
      command->add_flag("--chat", options->chat,
                        "A conversation by the model's chat template, a line of stdin a turn");
  command->add_option("--system", options->system, "System message of the conversation")
      ->needs(chat);
  file->excludes(prompt)->excludes(chat);
  command->add_option("--receipt", options->receipt,
                      "Write a receipt, for `isobit replay`, of the (last) completion");
  AddSamplingOptions(*command, options->sampling);
  AddModelOptions(*command, options->model);
  return {command, [options] { return Run(*options); }};
}

}  // namespace isobit
