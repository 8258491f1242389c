#include "runtime/server/generation.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace isobit {
namespace {

// A server-sent event.
std::string Sse(std::string_view json) {
  std::string event = "data: ";
  event.append(json).append("\n\n");
  return event;
}

constexpr std::string_view kSseEnd = "data: [DONE]\n\n";

HttpResponse StreamHead() {
  return {.content_type = "text/event-stream; charset=utf-8",
          // A proxy must not hold tokens back.
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

}  // namespace

// ---- All of them

bool Generations::Enter(int64_t sequences) {
  if (sequences_.fetch_add(sequences) + sequences <= max_sequences_) return true;
  sequences_ -= sequences;
  return false;
}

uint64_t Generations::Add(const std::shared_ptr<Generation>& generation) {
  const std::lock_guard lock(mutex_);
  active_.emplace(next_key_, generation);
  return next_key_++;
}

void Generations::Remove(uint64_t key) {
  const std::lock_guard lock(mutex_);
  active_.erase(key);
  if (active_.empty()) empty_.notify_all();
}

void Generations::WaitUntilEmpty() {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [this] { return active_.empty(); });
}

// Kept alive outside the lock: the last one to let go of a generation takes the lock.
std::vector<std::shared_ptr<Generation>> Generations::Find(const std::string* id) {
  std::vector<std::shared_ptr<Generation>> all, found;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, weak] : active_) {
      if (auto generation = weak.lock()) all.push_back(std::move(generation));
    }
  }
  for (auto& generation : all) {
    if (id == nullptr || generation->id() == *id) found.push_back(generation);
  }
  return found;
}

int64_t Generations::AbortFound(const std::string* id) {
  int64_t count = 0;
  for (const auto& generation : Find(id)) count += generation->Cancel() ? 1 : 0;
  return count;
}

int64_t Generations::Abort(const std::string& id) { return AbortFound(&id); }
int64_t Generations::AbortAll() { return AbortFound(nullptr); }

// ---- One

Generation::Generation(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
                       int64_t sequences, size_t prompts, std::unique_ptr<ReplyFormat> format,
                       bool stream)
    : services_(services),
      exchange_(std::move(exchange)),
      sequences_(sequences),
      format_(std::move(format)),
      stream_(stream),
      begin_(std::chrono::steady_clock::now()),
      completions_(prompts),
      unfinished_(prompts) {}

Generation::~Generation() {
  // Whoever waits for the last generation may end the network.
  exchange_.reset();
  services_.generations.Leave(sequences_);
  services_.generations.Remove(key_);
}

void Generation::Start(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
                       std::vector<Request> requests, std::unique_ptr<ReplyFormat> format,
                       bool stream) {
  const int64_t sequences = std::ssize(requests) * requests.front().sampling.n;
  const int64_t most = services.generations.max_sequences();
  if (sequences > most) {
    return exchange->Send(ErrorResponse(absl::InvalidArgumentError(
        absl::StrCat("prompts times n must be <= ", most, ", got ", sequences))));
  }
  if (!services.generations.Enter(sequences)) {
    services.network.metrics().CountRefused("queue");
    return exchange->Send(BusyResponse(429, "queue_full", "too many requests are waiting"));
  }
  const std::shared_ptr<Generation> generation(new Generation(
      services, std::move(exchange), sequences, requests.size(), std::move(format), stream));
  generation->key_ = services.generations.Add(generation);
  generation->exchange_->OnGone([weak = std::weak_ptr(generation)](GoneReason) {
    if (const auto alive = weak.lock()) alive->Cancel();
  });
  generation->Submit(std::move(requests));
}

void Generation::Submit(std::vector<Request> requests) {
  absl::Status failure;
  for (size_t prompt = 0; prompt < requests.size(); ++prompt) {
    if (!failure.ok()) {  // all or none
      OnDone(prompt, failure);
      continue;
    }
    const auto self = shared_from_this();
    const absl::StatusOr<RequestHandle> handle = services_.engine.Submit(
        std::move(requests[prompt]),
        {.on_token = [self, prompt](const TokenEvent& token) { self->OnToken(prompt, token); },
         .on_done =
             [self, prompt](absl::StatusOr<Completion> completion) {
               self->OnDone(prompt, std::move(completion));
             }});
    if (!handle.ok()) {
      failure = handle.status();
      Cancel();
      OnDone(prompt, failure);
      continue;
    }
    const std::lock_guard lock(mutex_);
    handles_.push_back(*handle);
    if (cancelled_) services_.engine.Cancel(*handle);
  }
}

bool Generation::Cancel() {
  if (complete_) return false;
  std::vector<RequestHandle> handles;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    handles = handles_;
  }
  for (const RequestHandle handle : handles) services_.engine.Cancel(handle);
  return true;
}

// ---- On the engine's thread, or before a request got there: nothing that takes time

void Generation::OnToken(size_t prompt, const TokenEvent& token) {
  if (!std::exchange(first_token_seen_, true)) {
    services_.network.metrics().ObserveFirstToken(std::chrono::steady_clock::now() - begin_);
  }
  if (!stream_) {
    if (token.logprobs != nullptr) CountLogProbs(*token.logprobs);
    return;
  }
  StreamedToken streamed = {.prompt = prompt,
                            .choice = token.choice,
                            .token_id = token.token_id,
                            .text = token.text,
                            .logprobs = std::nullopt,
                            .model_digest = token.model_digest};
  if (token.logprobs != nullptr) streamed.logprobs = *token.logprobs;
  Deliver(std::move(streamed));
}

// What is gathered in memory must end somewhere.
void Generation::CountLogProbs(const TokenLogProbs& position) {
  const int64_t most = services_.network.limits().max_answer_logprobs;
  logprobs_ += 1 + std::ssize(position.top);
  if (logprobs_ <= most) return;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = absl::OutOfRangeError(
        absl::StrCat("an answer must hold at most ", most,
                     " log-probabilities on this server: ask for fewer, or for a stream"));
  }
  Cancel();
}

void Generation::OnDone(size_t prompt, absl::StatusOr<Completion> completion) {
  if (stream_) return Deliver(Done{prompt, std::move(completion)});
  if (completion.ok() && completion->prompt_logprobs) {
    for (const TokenLogProbs& position : *completion->prompt_logprobs) CountLogProbs(position);
  }
  {
    const std::lock_guard lock(mutex_);
    Keep({prompt, std::move(completion)});
    if (unfinished_ > 0) return;
  }
  asio::post(services_.network.workers(), [self = shared_from_this()] { self->Answer(); });
}

void Generation::Deliver(Event event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    if (std::exchange(flush_posted_, true)) return;
  }
  exchange_->Post([self = shared_from_this()] { self->Flush(); });
}

void Generation::Keep(Done done) {
  --unfinished_;
  if (!done.completion.ok()) {
    failure_.Update(done.completion.status());
  } else if (failure_.ok()) {
    completions_[done.prompt] = *std::move(done.completion);
  }
}

// ---- On the network thread: a stream

void Generation::Flush() {
  std::vector<Event> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(events_);
    flush_posted_ = false;
  }
  std::vector<std::string> events;
  for (Event& event : arrived) {
    if (const auto* token = std::get_if<StreamedToken>(&event)) {
      format_->OnToken(*token, events);
    } else {
      FlushDone(std::move(std::get<Done>(event)), events);
    }
  }
  std::string text;
  for (const std::string& event : events) text += Sse(event);
  if (unfinished_ == 0) {
    complete_ = true;
    // What failed before it began can still be told by its status.
    if (!failure_.ok() && !begun_) return exchange_->Send(ErrorResponse(failure_));
    if (!failure_.ok()) text += Sse(ErrorResponse(failure_).body);
    text += kSseEnd;
  }
  if (text.empty()) return;
  if (!std::exchange(begun_, true)) exchange_->StartStream(StreamHead());
  if (unfinished_ != 0) return exchange_->Write(text);
  Report();
  exchange_->EndStream(text);
}

void Generation::FlushDone(Done done, std::vector<std::string>& events) {
  const size_t prompt = done.prompt;
  Keep(std::move(done));
  if (!failure_.ok()) return;
  format_->OnDone(prompt, completions_[prompt], events);
  if (unfinished_ == 0) format_->OnEnd(completions_, events);
}

// ---- On a worker: one answer

void Generation::Answer() {
  complete_ = true;
  if (!failure_.ok()) return exchange_->Send(ErrorResponse(failure_));
  Report();
  exchange_->Send({.body = format_->Body(completions_)});
}

// For the log and the metrics, when all went well.
void Generation::Report() {
  size_t prompt_tokens = 0, tokens = 0;
  for (const Completion& completion : completions_) {
    prompt_tokens += completion.prompt_token_ids.size();
    for (const Choice& choice : completion.choices) tokens += choice.token_ids.size();
  }
  services_.network.metrics().ObserveGeneration(std::chrono::steady_clock::now() - begin_,
                                                static_cast<int64_t>(tokens));
  exchange_->Note(absl::StrFormat("%d+%d tokens, digest %s", prompt_tokens, tokens,
                                  DigestOf(completions_).ToHex()));
}

}  // namespace isobit
