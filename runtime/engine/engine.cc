#include "runtime/engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/engine/engine_core.h"
#include "runtime/engine/redrawer.h"
#include "runtime/text/chat_template.h"

namespace isobit {
namespace {

// Weights may change under a running engine only if everything that was planned for the old ones
// holds for the new ones.
absl::Status CheckSameShape(const Model& before, const Model& after) {
  const auto shape = [](const ModelConfig& config) {
    DigestBuilder digest;
    config.AddTo(digest);
    return digest.Finish();
  };
  if (shape(before.config()) != shape(after.config())) {
    return absl::InvalidArgumentError(
        absl::StrCat(after.path(), ": the model is not of the same shape as the running one"));
  }
  if (before.tokenizer().Fingerprint() != after.tokenizer().Fingerprint()) {
    return absl::InvalidArgumentError(
        absl::StrCat(after.path(), ": the tokenizer is not that of the running model"));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t DrawSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> 11;
}

// The thread, and what crosses between it and the callers.
class Engine::Impl {
 public:
  explicit Impl(std::unique_ptr<EngineCore> core_in)
      : options_(core_in->options()), core_(std::move(core_in)) {
    stats_ = core_->Stats();
    thread_ = std::thread([this] { Loop(); });
  }

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  absl::StatusOr<RequestHandle> Submit(Request request, RequestCallbacks callbacks) {
    // Holds for a core that replaces this one meanwhile: it has the same shape and tokenizer.
    absl::StatusOr<PreparedRequest> prepared = Prepare(*core(), std::move(request));
    if (!prepared.ok()) return prepared.status();
    prepared->callbacks = std::move(callbacks);
    RequestHandle handle;
    {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) return failure_;
      if (stopping_) return absl::CancelledError("the engine is shutting down");
      handle = prepared->handle = next_handle_++;
      inbox_.push_back(*std::move(prepared));
      ++unfinished_;
    }
    wake_.notify_all();
    return handle;
  }

  void Cancel(RequestHandle handle) {
    {
      std::lock_guard lock(mutex_);
      cancels_.push_back(handle);
    }
    wake_.notify_all();
  }

  void Drain() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return unfinished_ == 0; });
  }

  EngineStats Stats() const {
    std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.waiting += static_cast<int64_t>(inbox_.size());
    return stats;
  }

  absl::Status status() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  void SetPaused(bool paused) {
    BetweenSteps([this, paused] {
      paused_ = paused;
      Publish();
    });
  }

  void FlushPrefixCache() {
    BetweenSteps([this] {
      core_->FlushPrefixCache();
      Publish();
    });
  }

  absl::Status CheckIntegrity() {
    absl::Status status;
    BetweenSteps([&] { status = CheckCore(); });
    return status;
  }

  // Builds the new core here and lets the engine's thread swap it in.
  absl::Status ReplaceModel(std::unique_ptr<Model> model) {
    const std::lock_guard one_at_a_time(replacing_);
    if (absl::Status s = CheckSameShape(core()->model(), *model); !s.ok()) return s;
    absl::StatusOr<std::unique_ptr<EngineCore>> next =
        EngineCore::Create(std::move(model), core()->options());
    if (!next.ok()) return next.status();
    std::unique_lock lock(mutex_);
    replacement_ = *std::move(next);
    replacement_from_ = next_handle_;
    wake_.notify_all();
    idle_.wait(lock, [this] { return replacement_ == nullptr; });
    return replacement_status_;
  }

  const EngineOptions& options() const { return options_; }

  std::shared_ptr<const EngineCore> core() const {
    std::lock_guard lock(mutex_);
    return core_;
  }

 private:
  static absl::StatusOr<PreparedRequest> Prepare(const EngineCore& core, Request request) {
    const Model& model = core.model();
    if (absl::Status s = ValidateSampling(request.sampling, model.config().vocab); !s.ok())
      return s;
    absl::StatusOr<std::vector<int32_t>> prompt = Tokenize(model, request);
    if (!prompt.ok()) return prompt.status();
    auto tokens = static_cast<int64_t>(prompt->size());
    SamplingParams limits = request.sampling;
    if (request.redraw) {
      if (absl::Status s = ValidateRedraw(*request.redraw, model.config().vocab); !s.ok()) return s;
      tokens += static_cast<int64_t>(request.redraw->output.size()) - 1;
      limits.max_tokens = 0;
    }
    if (absl::Status s = core.CheckFits(tokens, limits); !s.ok()) return s;
    PreparedRequest prepared;
    prepared.id = std::move(request.id);
    prepared.prompt = *std::move(prompt);
    if (request.sampling.seed) {
      prepared.seed = *request.sampling.seed;
    } else if (core.options().seed) {
      prepared.seed = *core.options().seed;
    } else {
      prepared.seed = DrawSeed();
    }
    prepared.sampling = std::move(request.sampling);
    prepared.redraw = std::move(request.redraw);
    return prepared;
  }

  static absl::StatusOr<std::vector<int32_t>> Tokenize(const Model& model, const Request& request) {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
      absl::Status status = CheckTokenIds(*ids, model.config().vocab, "prompt_token_ids");
      if (!status.ok()) return status;
      return *ids;
    }
    std::string text;
    EncodeOptions encode;
    if (const auto* messages = std::get_if<std::vector<ChatMessage>>(&request.prompt)) {
      absl::StatusOr<std::string> applied =
          model.ApplyChatTemplate(*messages, true, request.tools, request.chat_template_kwargs);
      if (!applied.ok()) {
        return absl::Status(applied.status().code(),
                            absl::StrCat("messages: ", applied.status().message()));
      }
      text = *std::move(applied);
      encode.add_special = false;  // a template writes BOS itself where the model wants it
    } else {
      text = std::get<std::string>(request.prompt);
    }
    absl::StatusOr<std::vector<int32_t>> ids = model.tokenizer().Encode(text, encode);
    if (!ids.ok()) {
      return absl::Status(ids.status().code(), absl::StrCat("prompt: ", ids.status().message()));
    }
    return ids;
  }

  void Loop() {
    while (TakeMessages()) {
      if (paused_ || !core_->HasWork()) continue;
      core_->Step().IgnoreError();  // kept as the core's failure
      Publish();
    }
    core_->FailAll(absl::CancelledError("the engine is shutting down"));
    Publish();
  }

  // Runs `action` on the engine's thread and waits for it.
  void BetweenSteps(std::function<void()> action) {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = ++actions_wanted_;
    actions_.push_back(std::move(action));
    wake_.notify_all();
    idle_.wait(lock, [&] { return actions_done_ >= ticket; });
  }

  // Hands over what callers sent, and sleeps while there is nothing to do. False: stop.
  bool TakeMessages() {
    std::vector<PreparedRequest> arrived;
    std::vector<RequestHandle> cancels;
    std::vector<std::function<void()>> actions;
    bool check = false;
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [this] {
        return stopping_ || HasTakable() || !actions_.empty() || replacement_ != nullptr;
      };
      if ((paused_ || !core_->HasWork()) && !has_news()) {
        // An idle moment: the next request should not have to pay for it.
        check = !checked_;
        checked_ = true;
        if (!check) wake_.wait(lock, has_news);
      }
      if (stopping_ && inbox_.empty()) return false;
      TakeUpTo(replacement_ != nullptr && !stopping_ ? replacement_from_ : next_handle_, arrived,
               cancels);
      actions.swap(actions_);
    }
    for (PreparedRequest& request : arrived) {
      request.callbacks = Counted(std::move(request.callbacks));
      core_->Add(std::move(request));
      checked_ = false;
    }
    for (RequestHandle handle : cancels) core_->Cancel(handle);
    if (!arrived.empty() || !cancels.empty()) Publish();
    if (check) CheckCore().IgnoreError();  // kept as the engine's status
    if (!actions.empty()) {
      core_->Settle().IgnoreError();
      Publish();
    }
    for (const std::function<void()>& action : actions) {
      action();
      std::lock_guard lock(mutex_);
      ++actions_done_;
      idle_.notify_all();
    }
    SwapCoreIfDue();
    return true;
  }

  // Messages about requests before `end`; later ones wait for the model that they belong to.
  void TakeUpTo(RequestHandle end, std::vector<PreparedRequest>& arrived,
                std::vector<RequestHandle>& cancels) {
    const auto later = std::ranges::find_if(
        inbox_, [end](const PreparedRequest& request) { return request.handle >= end; });
    arrived.assign(std::make_move_iterator(inbox_.begin()), std::make_move_iterator(later));
    inbox_.erase(inbox_.begin(), later);
    std::erase_if(cancels_, [&](RequestHandle handle) {
      if (handle >= end) return false;
      cancels.push_back(handle);
      return true;
    });
  }

  // REQUIRES: mutex_ is held.
  bool HasTakable() const {
    if (replacement_ == nullptr) return !inbox_.empty() || !cancels_.empty();
    const auto before = [this](RequestHandle handle) { return handle < replacement_from_; };
    return (!inbox_.empty() && before(inbox_.front().handle)) ||
           std::ranges::any_of(cancels_, before);
  }

  // The old core goes when its requests are done; an audit of them goes with it.
  void SwapCoreIfDue() {
    std::shared_ptr<EngineCore> old;  // dies outside the lock
    std::lock_guard lock(mutex_);
    if (replacement_ == nullptr || HasTakable()) return;
    if (!failure_.ok()) {
      old = std::exchange(replacement_, nullptr);
      replacement_status_ = failure_;
    } else if (core_->HasRequests()) {
      if (!paused_) return;
      old = std::exchange(replacement_, nullptr);
      replacement_status_ = absl::FailedPreconditionError(
          "the engine is paused and requests wait for the old weights: abort them or go on first");
    } else {
      old = std::exchange(core_, std::exchange(replacement_, nullptr));
      core_->ContinueCounts(old->Stats());
      stats_ = Snapshot();
      replacement_status_ = absl::OkStatus();
    }
    idle_.notify_all();
  }

  // A broken invariant is the end of everything.
  absl::Status CheckCore() {
    const absl::Status status = core_->CheckIntegrity();
    if (!status.ok()) {
      core_->Fail(status);
      NoteFailure();
    }
    return status;
  }

  // A request counts as finished after its on_done. Whoever waited for that sees it in Stats(), and
  // the device's error in status().
  RequestCallbacks Counted(RequestCallbacks callbacks) {
    callbacks.on_done = [this, done = std::move(callbacks.on_done)](absl::StatusOr<Completion> c) {
      NoteFailure();
      if (done) done(std::move(c));
      const EngineStats stats = Snapshot();
      std::lock_guard lock(mutex_);
      stats_ = stats;
      if (--unfinished_ == 0) idle_.notify_all();
    };
    return callbacks;
  }

  void Publish() {
    const EngineStats stats = Snapshot();
    NoteFailure();
    std::lock_guard lock(mutex_);
    stats_ = stats;
  }

  // The first counts.
  void NoteFailure() {
    if (core_->failure().ok()) return;
    std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = core_->failure();
  }

  EngineStats Snapshot() const {
    EngineStats stats = core_->Stats();
    stats.paused = paused_;
    return stats;
  }

  const EngineOptions options_;  // the same for every core

  // Engine's thread only.
  bool checked_ = true;  // integrity since the last request
  bool paused_ = false;

  std::mutex replacing_;  // held by the caller of ReplaceModel

  mutable std::mutex mutex_;          // guards all below
  std::shared_ptr<EngineCore> core_;  // changed by the engine's thread, which reads it without lock
  std::condition_variable wake_;      // the engine's thread waits here
  std::condition_variable idle_;      // callers wait here for what that thread does for them
  std::vector<PreparedRequest> inbox_;
  std::vector<RequestHandle> cancels_;
  RequestHandle next_handle_ = 1;
  int64_t unfinished_ = 0;
  bool stopping_ = false;
  absl::Status failure_;  // the device's: nothing runs any more
  EngineStats stats_;
  std::vector<std::function<void()>> actions_;
  uint64_t actions_wanted_ = 0, actions_done_ = 0;
  std::shared_ptr<EngineCore> replacement_;  // takes over once requests before the next are done
  RequestHandle replacement_from_ = 0;       // its first request
  absl::Status replacement_status_;

  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::unique_ptr<Model> model,
                                                       const EngineOptions& options) {
  EngineOptions with_seed = options;
  if (!with_seed.audit_seed) with_seed.audit_seed = DrawSeed();
  absl::StatusOr<std::unique_ptr<EngineCore>> core =
      EngineCore::Create(std::move(model), with_seed);
  if (!core.ok()) return core.status();
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(*std::move(core))));
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() = default;

absl::StatusOr<RequestHandle> Engine::Submit(Request request, RequestCallbacks callbacks) {
  return impl_->Submit(std::move(request), std::move(callbacks));
}

void Engine::Cancel(RequestHandle handle) { impl_->Cancel(handle); }

std::vector<absl::StatusOr<Completion>> Engine::Generate(std::vector<Request> requests) {
  std::vector<absl::StatusOr<Completion>> results(requests.size(),
                                                  absl::UnknownError("not finished"));
  std::mutex mutex;
  std::condition_variable all_done;
  size_t left = requests.size();
  for (size_t i = 0; i < requests.size(); ++i) {
    auto finish = [&, i](absl::StatusOr<Completion> completion) {
      std::lock_guard lock(mutex);
      results[i] = std::move(completion);
      // Under the lock: the waiter below must not return and destroy these while we still use them.
      if (--left == 0) all_done.notify_all();
    };
    absl::StatusOr<RequestHandle> handle = Submit(std::move(requests[i]), {.on_done = finish});
    if (!handle.ok()) finish(handle.status());
  }
  std::unique_lock lock(mutex);
  all_done.wait(lock, [&] { return left == 0; });
  return results;
}

void Engine::Drain() { impl_->Drain(); }
EngineStats Engine::Stats() const { return impl_->Stats(); }
void Engine::Pause() { impl_->SetPaused(true); }
void Engine::Resume() { impl_->SetPaused(false); }
void Engine::FlushPrefixCache() { impl_->FlushPrefixCache(); }
absl::Status Engine::ReplaceModel(std::unique_ptr<Model> model) {
  return impl_->ReplaceModel(std::move(model));
}
absl::Status Engine::status() const { return impl_->status(); }
const Model& Engine::model() const { return impl_->core()->model(); }
std::shared_ptr<const Model> Engine::shared_model() const {
  std::shared_ptr<const EngineCore> core = impl_->core();
  const Model& model = core->model();
  return {std::move(core), &model};
}
const EngineOptions& Engine::options() const { return impl_->options(); }
absl::Status Engine::CheckIntegrity() { return impl_->CheckIntegrity(); }

}  // namespace isobit
