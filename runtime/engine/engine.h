#ifndef ISOBIT_RUNTIME_ENGINE_ENGINE_H_
#define ISOBIT_RUNTIME_ENGINE_ENGINE_H_

// The engine: takes requests at any time, runs them together, delivers tokens as they are drawn.
//
// Thread safety: every method may be called from any thread. Callbacks come from the engine's own
// thread, one at a time, in order within a request; they must not block and must not call what
// waits for that thread (Generate, Drain, Pause, Resume, FlushPrefixCache, ReplaceModel,
// CheckIntegrity) or destroy the engine. Submit and Cancel are allowed.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/engine/request.h"
#include "runtime/model/model.h"

namespace isobit {

struct EngineOptions {
  int64_t max_model_len =
      0;                     // tokens of prompt and output together; 0: what the model was made for
  int64_t max_num_seqs = 0;  // sequences in one step; 0: by memory, at most 256
  int64_t max_num_batched_tokens =
      0;  // token budget of a step: sets prefill chunks; 0: 512 on a CPU, 8192 on a GPU
  int64_t block_size = 32;      // tokens a KV page, a multiple of 16
  int64_t kv_cache_tokens = 0;  // size of the KV pool; 0: by memory
  bool prefix_cache = true;
  bool enforce_eager = false;  // on a GPU: every step operation by operation, none from a recording
  // Issue a step before the tokens of the one before it are known; none: where the device works
  // beside the host.
  std::optional<bool> async_scheduling = std::nullopt;
  std::optional<uint64_t> seed =
      std::nullopt;  // for requests that name none; none: each gets one from the system
  // Share of the work that may go into computing random finished requests again, to compare them
  // with what was delivered (auditor.h); in [0, 1], 0: none.
  double audit_share = 0;
  std::optional<uint64_t> audit_seed = std::nullopt;  // decides which; none: from the system
};

// A share that costs no more than 1% of throughput.
inline constexpr double kDefaultAuditShare = 0.01;

struct EngineStats {
  int64_t steps = 0;
  int64_t replayed_steps = 0;  // from a recording; 0 on a CPU
  int64_t ahead_steps = 0;     // issued before the tokens of the one before were known
  int64_t waiting = 0;         // sequences
  int64_t running = 0;
  int64_t preemptions = 0;
  int64_t prompt_tokens = 0;  // prefilled, recomputed ones included
  int64_t cached_tokens = 0;  // taken from the prefix cache instead
  int64_t generated_tokens = 0;
  int64_t kv_pages = 0;
  int64_t kv_pages_in_use = 0;
  int64_t kv_pages_cached = 0;  // free, but kept for their prefix
  int64_t audits = 0;           // choices that were computed again and compared
  int64_t audited_tokens = 0;   // their prompts and outputs
  int64_t audit_differences = 0;
  std::string first_audit_difference;  // empty: none
  bool paused = false;
};

struct RequestCallbacks {
  std::function<void(const TokenEvent&)> on_token = nullptr;          // may be empty
  std::function<void(absl::StatusOr<Completion>)> on_done = nullptr;  // exactly once
  // The fp32 logits [vocab] computed at a position (they predict the next one): of every row that
  // is sampled from, and of prompt rows if prompt_logprobs is on. May be empty; costs a copy.
  std::function<void(int choice, int64_t position, std::span<const float> logits)> on_logits =
      nullptr;
  // Of requests with a redraw: what was drawn at an index of its output.
  std::function<void(int64_t index, const SampledToken& token)> on_redrawn = nullptr;
};

using RequestHandle = uint64_t;

// A seed from the system: 53 bits, so that it survives programs that read JSON numbers as doubles.
uint64_t DrawSeed();

class Engine {
 public:
  // Plans memory and starts the engine's thread. The model's backend is used by this engine alone
  // from now on. InvalidArgument names an option and its limit; ResourceExhausted says what does
  // not fit.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::unique_ptr<Model> model,
                                                        const EngineOptions& options);
  // Cancels what is left: every callback still comes.
  ~Engine();

  // Checks and queues a request. An error (of the request) is returned here and on_done is not
  // called then.
  absl::StatusOr<RequestHandle> Submit(Request request, RequestCallbacks callbacks);
  // Ends a request early: its completion comes with finish_reason "cancelled" and the tokens so
  // far. Unknown or finished handles are ignored.
  void Cancel(RequestHandle handle);

  // Runs requests together and waits for all; one result a request, in order.
  std::vector<absl::StatusOr<Completion>> Generate(std::vector<Request> requests);

  // Waits until nothing is queued or running.
  void Drain();

  // Between two steps: after Pause has returned nothing is computed until Resume; requests queue up
  // meanwhile and can be cancelled.
  void Pause();
  void Resume();
  // Forgets every cached prefix. No bit depends on it.
  void FlushPrefixCache();

  // Swaps the weights. Requests submitted before finish on the old model, those submitted after run
  // on the new one, whose cache starts empty; each completion says which it was. Returns when the
  // swap is done. The new model is of the same shape with the same tokenizer (InvalidArgument),
  // both fit the memory for a moment (ResourceExhausted), and nothing waits behind a pause
  // (FailedPrecondition); after an error the old model goes on.
  absl::Status ReplaceModel(std::unique_ptr<Model> model);

  EngineStats Stats() const;
  // OK, or the device's error after which nothing runs any more.
  absl::Status status() const;
  // The model that a request submitted now would run on; valid until the next ReplaceModel.
  const Model& model() const;
  // The same, kept alive by whoever holds it.
  std::shared_ptr<const Model> shared_model() const;
  const EngineOptions& options() const;  // with every 0 replaced by what was chosen

  // Checks every invariant of pages, prefix cache and queues; runs between two steps. Tests and
  // idle moments call it.
  absl::Status CheckIntegrity();

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_ENGINE_H_
