#include "tools/isobit/batch_run.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/api/completion_json.h"
#include "runtime/api/request_json.h"
#include "runtime/receipt/receipt.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

constexpr size_t kMaxPendingBytes = size_t{64} << 20;  // of request lines
constexpr size_t kWriteBytes = size_t{1} << 20;        // answers go out at least this often

// Enough in flight that a step is full while others wait, begin and end.
size_t WindowOf(const Engine& engine) {
  return static_cast<size_t>(std::max<int64_t>(4 * engine.options().max_num_seqs, 16));
}

// "000017-name.json": the line's number keeps names apart, the id makes them easy to find.
std::string ReceiptName(int64_t line_number, const std::string& id) {
  std::string name = absl::StrFormat("%06d-", line_number);
  for (const char c : id.substr(0, 64)) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
    name += plain ? c : '_';
  }
  return name + ".json";
}

}  // namespace

// A request that was read and whose answer is not written yet.
struct BatchRun::Pending {
  int64_t line_number = 0;
  size_t bytes = 0;
  std::optional<std::string> id;
  SamplingParams sampling;     // as submitted, for the receipt
  bool hide_logprobs = false;  // they were turned on for the receipt only
  RequestHandle handle = 0;
  std::optional<absl::StatusOr<Completion>> result;

  bool IsCancelled() const {
    if (!result->ok()) return absl::IsCancelled(result->status());
    const std::vector<Choice>& choices = (*result)->choices;
    return std::any_of(choices.begin(), choices.end(), [](const Choice& choice) {
      return choice.finish_reason == FinishReason::kCancelled;
    });
  }
};

BatchRun::BatchRun(Engine& engine, LineReader& input, OutputFile& output, std::string receipts,
                   ProgressBar* progress)
    : engine_(engine),
      input_(input),
      output_(output),
      receipts_(std::move(receipts)),
      progress_(progress),
      window_(WindowOf(engine)) {}

BatchRun::~BatchRun() {
  CancelAll();
  engine_.Drain();
}

void BatchRun::CancelAll() {
  for (const auto& pending : pending_) engine_.Cancel(pending->handle);
}

bool BatchRun::HasRoom() const {
  return pending_.size() < window_ && pending_bytes_ < kMaxPendingBytes;
}

absl::Status BatchRun::Run() {
  constexpr int kProgressMilliseconds = 200;
  absl::Status input_status;
  while (true) {
    if (Interrupted()) {
      CancelAll();
      engine_.Drain();
      return WriteFinished();
    }
    while (HasRoom()) {
      std::optional<Line> line = input_.Next();
      if (!line.has_value()) break;
      Accept(*std::move(line));
    }
    const size_t pending_before = pending_.size();
    if (const absl::Status status = WriteFinished(); !status.ok()) return status;
    ReportProgress();
    if (pending_.size() < pending_before) continue;  // there may be room for lines already read

    const bool wants_input = HasRoom() && !input_.at_end();
    if (pending_.empty() && !wants_input) return input_status;
    const int ready =
        WaitForAny({InterruptDescriptor(), finished_.fd(), wants_input ? input_.fd() : -1},
                   progress_ == nullptr ? -1 : kProgressMilliseconds);
    // Cleared before the results are looked at, so that none is missed.
    if (ready == finished_.fd()) finished_.Clear();
    // An input that breaks is one that ends here; what came before it is still answered.
    if (wants_input && ready == input_.fd()) input_status = input_.Fill();
  }
}

void BatchRun::Accept(Line line) {
  Pending& pending = *pending_.emplace_back(std::make_unique<Pending>());
  pending.line_number = line.number;
  pending.bytes = line.bytes;
  pending_bytes_ += line.bytes;

  absl::Status refused;
  if (line.too_long) {
    refused = absl::InvalidArgumentError(absl::StrCat(
        "a request must be at most ", kMaxRequestBytes, " bytes long, got ", line.bytes));
  } else {
    ParsedRequest parsed = ParseRequest(line.text);
    pending.id = std::move(parsed.id);
    refused =
        parsed.request.ok() ? Submit(*std::move(parsed.request), pending) : parsed.request.status();
  }
  if (refused.ok()) return;
  // Without an id the line's number is all that tells errors apart.
  pending.result = pending.id.has_value()
                       ? refused
                       : absl::Status(refused.code(),
                                      absl::StrCat("line ", line.number, ": ", refused.message()));
}

absl::Status BatchRun::Submit(Request request, Pending& pending) {
  if (!receipts_.empty()) {
    pending.hide_logprobs = !request.sampling.logprobs.has_value();
    AskForReceipt(request.sampling);
    pending.sampling = request.sampling;
  }
  RequestCallbacks callbacks;
  callbacks.on_done = [this, &pending](absl::StatusOr<Completion> result) {
    const std::lock_guard lock(mutex_);
    pending.result = std::move(result);
    finished_.Raise();
  };
  const absl::StatusOr<RequestHandle> handle =
      engine_.Submit(std::move(request), std::move(callbacks));
  if (!handle.ok()) return handle.status();
  pending.handle = *handle;
  return absl::OkStatus();
}

bool BatchRun::IsFinished(const Pending& pending) {
  const std::lock_guard lock(mutex_);
  return pending.result.has_value();
}

absl::Status BatchRun::WriteReceiptOf(const Pending& pending) {
  const Completion& completion = **pending.result;
  const absl::StatusOr<Receipt> receipt =
      MakeReceipt(kBuildName, engine_.model().config().name, engine_.model().digest(),
                  pending.sampling, completion);
  if (!receipt.ok()) return receipt.status();
  return WriteReceipt(absl::StrCat(receipts_, "/", ReceiptName(pending.line_number, completion.id)),
                      *receipt);
}

std::string BatchRun::AnswerOf(Pending& pending) {
  absl::StatusOr<Completion>& result = *pending.result;
  if (!result.ok()) {
    ++counts_.failed;
    return ErrorToJson(pending.id, result.status()) + "\n";
  }
  for (Choice& choice : result->choices) {
    counts_.generated_tokens += static_cast<int64_t>(choice.token_ids.size());
    if (pending.hide_logprobs) choice.logprobs.reset();
  }
  return CompletionToJson(*result) + "\n";
}

absl::Status BatchRun::WriteFinished() {
  std::string answers;
  int64_t count = 0;
  absl::Status status;
  while (status.ok() && !pending_.empty() && IsFinished(*pending_.front())) {
    Pending& pending = *pending_.front();
    // Given up by an interrupt: --resume asks again.
    if (Interrupted() && pending.IsCancelled()) break;
    // The receipt first: a request whose answer is there has its receipt.
    if (!receipts_.empty() && pending.result->ok()) status = WriteReceiptOf(pending);
    if (!status.ok()) break;
    answers += AnswerOf(pending);
    ++count;
    input_bytes_answered_ += static_cast<int64_t>(pending.bytes);
    pending_bytes_ -= pending.bytes;
    pending_.pop_front();
    if (answers.size() >= kWriteBytes) {
      status = output_.Append(answers);
      if (status.ok()) counts_.answered += count;
      answers.clear();
      count = 0;
    }
  }
  if (!answers.empty()) {
    const absl::Status written = output_.Append(answers);
    if (written.ok()) counts_.answered += count;
    status.Update(written);
  }
  return status;
}

void BatchRun::ReportProgress() {
  if (progress_ == nullptr) return;
  progress_->Show(
      input_bytes_answered_,
      absl::StrCat(counts_.answered, " answered, ", counts_.failed, " failed, ", pending_.size(),
                   " in flight, ", engine_.Stats().generated_tokens, " tokens"));
}

}  // namespace isobit
