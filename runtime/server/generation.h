#ifndef ISOBIT_RUNTIME_SERVER_GENERATION_H_
#define ISOBIT_RUNTIME_SERVER_GENERATION_H_

// One HTTP request's way through the engine: its prompts are submitted, tokens are streamed or
// completions gathered, and if the client goes away the rest is cancelled.
//
//   worker: Start -> engine thread: tokens and completions -> network thread (a stream) or worker
//   (one answer)

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/api/reply_format.h"
#include "runtime/engine/engine.h"
#include "runtime/server/exchange.h"
#include "runtime/server/network.h"

namespace isobit {

class Generation;

// All generations of a server, and how many sequences they may be together. Thread-safe.
class Generations {
 public:
  explicit Generations(int64_t max_sequences) : max_sequences_(max_sequences) {}

  // Room for this many sequences; false if there is none now.
  bool Enter(int64_t sequences);
  void Leave(int64_t sequences) { sequences_ -= sequences; }
  int64_t max_sequences() const { return max_sequences_; }

  // Remove takes what Add gave.
  uint64_t Add(const std::shared_ptr<Generation>& generation);
  void Remove(uint64_t key);
  // Ends the requests with this id, or all; how many there were that had no whole answer yet.
  int64_t Abort(const std::string& id);
  int64_t AbortAll();
  void WaitUntilEmpty();

 private:
  std::vector<std::shared_ptr<Generation>> Find(const std::string* id);
  int64_t AbortFound(const std::string* id);

  const int64_t max_sequences_;
  std::atomic<int64_t> sequences_ = 0;
  std::mutex mutex_;
  std::condition_variable empty_;
  std::map<uint64_t, std::weak_ptr<Generation>> active_;  // in the order in which they came
  uint64_t next_key_ = 1;
};

// What a generation needs of its server.
struct GenerationServices {
  Engine& engine;
  Network& network;
  Generations& generations;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Submits the requests; the answer comes on `exchange`, in `format`, whatever happens.
  static void Start(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
                    std::vector<Request> requests, std::unique_ptr<ReplyFormat> format,
                    bool stream);
  ~Generation();

  const std::string& id() const { return exchange_->request().id; }
  // False: there is nothing left to cancel, the answer is complete.
  bool Cancel();

 private:
  // What the engine said, on its way to the network thread.
  struct Done {
    size_t prompt;
    absl::StatusOr<Completion> completion;
  };
  using Event = std::variant<StreamedToken, Done>;

  Generation(const GenerationServices& services, std::shared_ptr<Exchange> exchange,
             int64_t sequences, size_t prompts, std::unique_ptr<ReplyFormat> format, bool stream);

  void Submit(std::vector<Request> requests);
  void OnToken(size_t prompt, const TokenEvent& token);
  void CountLogProbs(const TokenLogProbs& position);
  void OnDone(size_t prompt, absl::StatusOr<Completion> completion);
  void Deliver(Event event);
  void Flush();
  void FlushDone(Done done, std::vector<std::string>& events);
  void Keep(Done done);
  void Answer();
  void Report();

  const GenerationServices services_;
  std::shared_ptr<Exchange> exchange_;
  const int64_t sequences_;
  const std::unique_ptr<ReplyFormat> format_;
  const bool stream_;
  const std::chrono::steady_clock::time_point begin_;
  uint64_t key_ = 0;  // among the generations
  // Its client may know the whole answer a while before the last one lets go of the generation.
  std::atomic<bool> complete_ = false;

  // Engine's thread.
  bool first_token_seen_ = false;
  int64_t logprobs_ = 0;  // of an answer that is gathered, alternatives included

  std::mutex mutex_;  // guards what follows
  std::vector<RequestHandle> handles_;
  bool cancelled_ = false;
  std::vector<Event> events_;
  bool flush_posted_ = false;

  // Of a stream: the network thread's. Of one answer: guarded by the mutex until nothing is
  // unfinished, then a worker's.
  std::vector<Completion> completions_;
  size_t unfinished_;
  absl::Status failure_;
  bool begun_ = false;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_GENERATION_H_
