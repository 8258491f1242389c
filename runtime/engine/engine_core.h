#ifndef ISOBIT_RUNTIME_ENGINE_ENGINE_CORE_H_
#define ISOBIT_RUNTIME_ENGINE_ENGINE_CORE_H_

// The engine without its thread: requests in, one step at a time.
//
//     schedule -> forward -> score and sample -> deliver -> publish pages
//
// With asynchronous scheduling a step is issued while the one before it still runs: its rows name
// the tokens that are being drawn by their place in the backend's memory. What ended with such a
// token has then a row too many, of which nothing is kept. Where the next step needs to know the
// tokens (penalties, prompt rows to be scored, a page to be taken from somebody), it waits for
// them.
//
// Not thread-safe. Engine (engine.h) runs one on a thread of its own.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/engine/auditor.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/page_pool.h"
#include "runtime/engine/redrawer.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/scheduler.h"
#include "runtime/engine/sequence.h"
#include "runtime/model/forward.h"
#include "runtime/model/model.h"

namespace isobit {

// A request that has been checked: nothing about it can be refused any more.
struct PreparedRequest {
  RequestHandle handle = 0;
  std::string id;
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  uint64_t seed = 0;  // the one used
  std::optional<Redraw> redraw = std::nullopt;
  RequestCallbacks callbacks = {};
};

class EngineCore {
 public:
  static absl::StatusOr<std::unique_ptr<EngineCore>> Create(std::unique_ptr<Model> model,
                                                            const EngineOptions& options);
  ~EngineCore();
  // Ends an engine and gives back its model, to be run with other options.
  static std::unique_ptr<Model> TakeModel(std::unique_ptr<EngineCore> engine);

  // OK, or why a prompt of this many tokens can't be run with these parameters. Thread-safe.
  absl::Status CheckFits(int64_t prompt_tokens, const SamplingParams& params) const;

  void Add(PreparedRequest request);
  void Cancel(RequestHandle handle);
  bool HasWork() const { return !requests_.empty() || !issued_.empty(); }
  // Work that somebody waits for: audits are not.
  bool HasRequests() const { return requests_.size() > requests_.count(kAuditHandle); }

  // Runs one step, or issues one and delivers what the one before it drew. An error is the
  // device's: then every request was ended with it. REQUIRES: HasWork().
  absl::Status Step();
  // Waits for a step that is still running and delivers what it drew. Errors as Step.
  absl::Status Settle();

  // Ends every request with `status`, and leaves nothing of steps that were issued.
  void FailAll(const absl::Status& status);
  // The same because nothing can be run any more; failure() says why before a request ends with it.
  // Step and Settle do it with their errors.
  void Fail(const absl::Status& status);
  const absl::Status& failure() const { return failure_; }

  // Forgets every cached prefix.
  void FlushPrefixCache() { pool_->Clear(); }
  // Takes over the counts of an engine that this one replaces. REQUIRES: nothing was run yet.
  void ContinueCounts(const EngineStats& before) { stats_ = before; }

  EngineStats Stats() const;
  absl::Status CheckIntegrity() const;
  // Fills the memory of all pages that hold nothing: a proof that it can't matter fills it with
  // NaN.
  void FillBlankPages(Bf16 value);
  const Model& model() const { return *model_; }
  const EngineOptions& options() const { return options_; }

 private:
  struct ActiveRequest {
    PreparedRequest request;
    std::vector<std::unique_ptr<Sequence>> sequences;  // one a choice
    Completion completion;
    int64_t unfinished = 0;              // choices
    int64_t scored = 0;                  // prompt positions whose successor has its log-probability
    absl::Status failure;                // set: the request ends with it after the step
    std::unique_ptr<Redrawer> redrawer;  // of requests with a redraw
  };
  struct Member {
    ActiveRequest* request = nullptr;
    Sequence* sequence = nullptr;
  };
  // A row of the step whose logits are needed.
  struct LogitRow {
    Member member;
    int32_t row = 0;
    int64_t position = 0;
  };
  struct StepWork {
    StepRows rows;
    std::vector<LogitRow> to_score;   // prompt rows
    std::vector<LogitRow> to_sample;  // last rows
    std::vector<LogitRow> to_redraw;
    std::vector<Member> redrawn;  // sequences of redraws that this step computes to their end
  };
  // A step whose draws are under way. Its sequences may be gone when they arrive.
  struct IssuedStep {
    std::vector<int64_t> drawing;  // ids of the sequences, a row of the sampler's tokens each
    std::vector<Draws> draws;      // of those rows, in slices
    Fence done;
  };

  // No caller's: theirs count up from 1.
  static constexpr RequestHandle kAuditHandle = ~RequestHandle{0};

  EngineCore(std::unique_ptr<Model> model, const EngineOptions& options);
  absl::Status CheckOptions();
  absl::Status PlanMemory();

  absl::Status RunStep();
  // The step before is still running.
  bool CanIssueAhead(const StepPlan& plan) const;

  // Requests in.
  void AddRedraw(ActiveRequest& active);
  void Wait(const Member& member);

  // Scheduling.
  StepPlan MakePlan() const;
  std::vector<SequenceState> RunningStates() const;
  std::vector<SequenceState> WaitingStates() const;
  std::vector<int32_t> CachedPages(const Member& member) const;
  static bool ScoresPrompt(const Member& member);
  void Preempt(std::span<const int64_t> ids);
  void Admit(std::span<const StepPlan::Item> items);
  StepWork Prepare(const StepPlan& plan);

  // What follows the forward pass.
  void PublishPages(Sequence& sequence);
  absl::Status ScorePrompts(std::span<const LogitRow> rows);
  absl::Status Sample(std::span<const LogitRow> rows, IssuedStep& step);
  // first_draw: of the sampler's tokens, those before are the step's own.
  absl::Status RedrawTokens(std::span<const LogitRow> rows, size_t first_draw);
  absl::Status ReportLogits(std::span<const LogitRow> rows, const float* logits);
  absl::Status Collect();  // of the first issued step
  void Deliver(const Member& member, const SampledToken& token, std::vector<TokenLogProb> top);

  // Ends.
  void GiveBackPages(Sequence& sequence);
  void Leave(const Member& member);  // a finished sequence
  void EndRequests();                // those that are finished or failed
  void EndRequest(ActiveRequest& active);

  // Audits.
  void NoteForAudit(const ActiveRequest& active);
  void StartAudit();

  std::unique_ptr<Model> model_;
  EngineOptions options_;
  int64_t logit_rows_ = 0;  // computed at once: bounds their memory
  bool async_scheduling_ = false;
  // After model_, whose backend holds their memory.
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<Forward> forward_;  // after sampler_, whose tokens it reads

  std::map<RequestHandle, ActiveRequest> requests_;
  std::map<int64_t, Member> members_;  // by sequence id; unfinished ones
  std::vector<Member> running_;        // in order of id
  std::deque<Member> waiting_;         // in order of id; all later than the running ones
  std::vector<RequestHandle> ended_;   // to be delivered at the end of the step
  std::deque<IssuedStep> issued_;      // at most one between calls, two within Step()
  absl::Status failure_;
  int64_t next_sequence_id_ = 1;
  Auditor auditor_;
  EngineStats stats_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_ENGINE_CORE_H_
