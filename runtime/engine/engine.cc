#include "runtime/engine/engine.h"

#include <condition_variable>
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

// 53 bits, so that the seed survives programs that read JSON numbers as doubles.
uint64_t DrawSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) >> 11;
}

}  // namespace

// The thread, and what crosses between it and the callers.
class Engine::Impl {
 public:
  explicit Impl(std::unique_ptr<EngineCore> core_in) : core_(std::move(core_in)) {
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
    absl::StatusOr<PreparedRequest> prepared = Prepare(std::move(request));
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

  absl::Status CheckIntegrity() {
    std::unique_lock lock(mutex_);
    const uint64_t ticket = ++integrity_wanted_;
    wake_.notify_all();
    idle_.wait(lock, [&] { return integrity_done_ >= ticket; });
    return integrity_;
  }

  const EngineCore& core() const { return *core_; }

 private:
  absl::StatusOr<PreparedRequest> Prepare(Request request) const {
    const Model& model = core_->model();
    if (absl::Status s = ValidateSampling(request.sampling, model.config().vocab); !s.ok())
      return s;
    absl::StatusOr<std::vector<int32_t>> prompt = Tokenize(request);
    if (!prompt.ok()) return prompt.status();
    auto tokens = static_cast<int64_t>(prompt->size());
    SamplingParams limits = request.sampling;
    if (request.redraw) {
      if (absl::Status s = ValidateRedraw(*request.redraw, model.config().vocab); !s.ok()) return s;
      tokens += static_cast<int64_t>(request.redraw->output.size()) - 1;
      limits.max_tokens = 0;
    }
    if (absl::Status s = core_->CheckFits(tokens, limits); !s.ok()) return s;
    PreparedRequest prepared;
    prepared.id = std::move(request.id);
    prepared.prompt = *std::move(prompt);
    if (request.sampling.seed) {
      prepared.seed = *request.sampling.seed;
    } else if (core_->options().seed) {
      prepared.seed = *core_->options().seed;
    } else {
      prepared.seed = DrawSeed();
    }
    prepared.sampling = std::move(request.sampling);
    prepared.redraw = std::move(request.redraw);
    return prepared;
  }

  absl::StatusOr<std::vector<int32_t>> Tokenize(const Request& request) const {
    const Model& model = core_->model();
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
      for (size_t i = 0; i < ids->size(); ++i) {
        if ((*ids)[i] < 0 || (*ids)[i] >= model.config().vocab) {
          return absl::InvalidArgumentError(absl::StrCat("prompt_token_ids[", i,
                                                         "] must be in [0, ", model.config().vocab,
                                                         "), got ", (*ids)[i]));
        }
      }
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
      if (!core_->HasWork()) continue;
      const absl::Status status = core_->Step();
      Publish(status);
    }
    core_->FailAll(absl::CancelledError("the engine is shutting down"));
    Publish(absl::OkStatus());
  }

  // Hands over what callers sent, and sleeps while there is nothing to do. False: stop.
  bool TakeMessages() {
    std::vector<PreparedRequest> arrived;
    std::vector<RequestHandle> cancels;
    bool check = false;
    uint64_t ticket;
    {
      std::unique_lock lock(mutex_);
      auto has_news = [this] {
        return stopping_ || !inbox_.empty() || !cancels_.empty() ||
               integrity_done_ != integrity_wanted_;
      };
      if (!core_->HasWork() && !has_news()) {
        // An idle moment: the next request should not have to pay for it.
        check = !checked_;
        checked_ = true;
        if (!check) wake_.wait(lock, has_news);
      }
      if (stopping_ && inbox_.empty()) return false;
      arrived.swap(inbox_);
      cancels.swap(cancels_);
      ticket = integrity_wanted_;
      check = check || integrity_done_ != ticket;
    }
    for (PreparedRequest& request : arrived) {
      request.callbacks = Counted(std::move(request.callbacks));
      core_->Add(std::move(request));
      checked_ = false;
    }
    for (RequestHandle handle : cancels) core_->Cancel(handle);
    if (check) {
      const absl::Status status = core_->CheckIntegrity();
      if (!status.ok()) core_->FailAll(status);
      std::lock_guard lock(mutex_);
      integrity_ = status;
      integrity_done_ = ticket;
      if (!status.ok()) failure_ = status;
      idle_.notify_all();
    }
    if (!arrived.empty() || !cancels.empty()) Publish(absl::OkStatus());
    return true;
  }

  // A request counts as finished after its on_done. Whoever waited for that sees it in Stats().
  RequestCallbacks Counted(RequestCallbacks callbacks) {
    callbacks.on_done = [this, done = std::move(callbacks.on_done)](absl::StatusOr<Completion> c) {
      if (done) done(std::move(c));
      const EngineStats stats = core_->Stats();
      std::lock_guard lock(mutex_);
      stats_ = stats;
      if (--unfinished_ == 0) idle_.notify_all();
    };
    return callbacks;
  }

  void Publish(const absl::Status& status) {
    const EngineStats stats = core_->Stats();
    std::lock_guard lock(mutex_);
    stats_ = stats;
    if (failure_.ok()) failure_ = status;
  }

  const std::unique_ptr<EngineCore> core_;
  bool checked_ = true;  // engine's thread only: integrity since the last request

  mutable std::mutex mutex_;      // guards all below
  std::condition_variable wake_;  // the engine's thread waits here
  std::condition_variable idle_;  // callers of Drain and CheckIntegrity wait here
  std::vector<PreparedRequest> inbox_;
  std::vector<RequestHandle> cancels_;
  RequestHandle next_handle_ = 1;
  int64_t unfinished_ = 0;
  bool stopping_ = false;
  absl::Status failure_;  // the device's: nothing runs any more
  EngineStats stats_;
  uint64_t integrity_wanted_ = 0, integrity_done_ = 0;
  absl::Status integrity_;

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
const Model& Engine::model() const { return impl_->core().model(); }
const EngineOptions& Engine::options() const { return impl_->core().options(); }
absl::Status Engine::CheckIntegrity() { return impl_->CheckIntegrity(); }

}  // namespace isobit
