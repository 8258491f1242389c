#include "tools/isobit/stream.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/isobit/event.h"

namespace isobit {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Carries tokens from the engine's thread, which must not wait for a terminal, to the one that
// writes them.
class TokenChannel {
 public:
  RequestCallbacks Callbacks() {
    RequestCallbacks callbacks;
    callbacks.on_token = [this](const TokenEvent& token) {
      const std::lock_guard lock(mutex_);
      last_token_ = Clock::now();
      if (!first_token_.has_value()) first_token_ = last_token_;
      text_ += token.text;
      changed_.Raise();
    };
    callbacks.on_done = [this](absl::StatusOr<Completion> result) {
      const std::lock_guard lock(mutex_);
      result_ = std::move(result);
      changed_.Raise();
    };
    return callbacks;
  }

  // What was drawn since the last call, and whether it was all.
  std::string TakeText(bool& done) {
    changed_.Clear();
    const std::lock_guard lock(mutex_);
    done = result_.has_value();
    return std::exchange(text_, {});
  }

  int fd() const { return changed_.fd(); }

  // After the end only.
  absl::StatusOr<Streamed> Result(Clock::time_point begin) {
    const std::lock_guard lock(mutex_);
    if (!result_->ok()) return result_->status();
    Streamed streamed{**std::move(result_)};
    if (first_token_.has_value()) {
      streamed.first_token_seconds = Seconds(*first_token_ - begin);
      streamed.decode_seconds = Seconds(last_token_ - *first_token_);
    }
    return streamed;
  }

 private:
  Event changed_;
  std::mutex mutex_;
  std::string text_;
  std::optional<Clock::time_point> first_token_;
  Clock::time_point last_token_{};
  std::optional<absl::StatusOr<Completion>> result_;
};

}  // namespace

absl::StatusOr<Streamed> StreamText(Engine& engine, Request request, OutputFile& output) {
  TokenChannel channel;
  const Clock::time_point begin = Clock::now();
  const absl::StatusOr<RequestHandle> handle =
      engine.Submit(std::move(request), channel.Callbacks());
  if (!handle.ok()) return handle.status();

  absl::Status written;
  char last = '\n';
  bool cancelled = false;
  for (bool done = false; !done;) {
    WaitForAny({channel.fd(), cancelled ? -1 : InterruptDescriptor()});
    const std::string text = channel.TakeText(done);
    if (!text.empty() && written.ok()) {
      written = output.Append(text);
      last = text.back();
    }
    if (!cancelled && (Interrupted() || !written.ok())) {
      cancelled = true;
      engine.Cancel(*handle);
    }
  }
  engine.Drain();  // the callback itself may still be on its way out
  if (written.ok() && last != '\n') written = output.Append("\n");
  if (!written.ok()) return written;
  return channel.Result(begin);
}

std::string Summary(const Streamed& streamed) {
  const Completion& completion = streamed.completion;
  const Choice& choice = completion.choices.front();
  std::string text = absl::StrCat("digest ", completion.digest.ToHex());
  if (completion.seed.has_value()) absl::StrAppend(&text, "  seed ", *completion.seed);
  absl::StrAppend(&text, "  ", completion.prompt_token_ids.size(), " + ", choice.token_ids.size(),
                  " tokens (", FinishReasonName(choice.finish_reason), ")");
  if (!choice.token_ids.empty()) {
    absl::StrAppendFormat(&text, "  first after %.2f s", streamed.first_token_seconds);
  }
  if (choice.token_ids.size() > 1 && streamed.decode_seconds > 0) {
    absl::StrAppendFormat(
        &text, ", then %.1f tok/s",
        static_cast<double>(choice.token_ids.size() - 1) / streamed.decode_seconds);
  }
  return text;
}

}  // namespace isobit
