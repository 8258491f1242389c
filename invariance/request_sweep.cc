#include "invariance/request_sweep.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/comparison.h"
#include "invariance/outcome.h"
#include "invariance/random.h"
#include "invariance/schedule.h"
#include "invariance/workload.h"

namespace isobit {
namespace {

constexpr int64_t kPage = 16;

// The first difference of a row says in which of its situations it was.
class Row {
 public:
  explicit Row(std::string name) : name_(std::move(name)) {}

  void Compare(const std::string& situation, const Outcome& alone, const Outcome& got) {
    Comparison one;
    CompareOutcomes(alone, got, CompareScope::kAll, &one);
    compared_ += one.compared();
    Note(situation, one.Describe());
  }
  void Note(const std::string& situation, const std::string& difference) {
    if (difference.empty()) return;
    ++different_;
    if (first_.empty()) first_ = absl::StrCat(situation, ": ", difference);
  }
  void Require(bool came_up, const std::string& what) {
    if (!came_up) Note("nothing shown", what);
  }

  const std::string& name() const { return name_; }

  CheckRow Finish() const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    return {.name = name_,
            .compared = compared_,
            .first_difference = different_ > 1
                                    ? absl::StrCat(first_, "; ", different_, " situations differ")
                                    : first_,
            .seconds = seconds.count()};
  }

 private:
  const std::string name_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t compared_ = 0, different_ = 0;
  std::string first_;
};

class RequestSweeper {
 public:
  RequestSweeper(std::unique_ptr<Model>& model, const RequestSweepOptions& options)
      : model_(model), options_(options) {
    request_ = MakeLongPrompt(*model, options.prompt, options.output);
    request_.id = "the request";
    request_.sampling.temperature = 0.9;
    request_.sampling.repetition_penalty = 1.1;
    request_.sampling.logprobs = 2;
    request_.seed = 5;
    request_.sampling.seed = request_.seed;
    company_ = MakeNoise(*model, 23, options.most_company, options.prompt);
  }

  absl::StatusOr<std::vector<CheckRow>> Run() {
    absl::StatusOr<Outcome> alone = One(Roomy(), {{.request = request_}}, 0);
    if (!alone.ok()) return alone.status();
    alone_ = *std::move(alone);
    for (auto sweep :
         {&RequestSweeper::Company, &RequestSweeper::Slots, &RequestSweeper::Chunks,
          &RequestSweeper::PageSizes, &RequestSweeper::PageTables, &RequestSweeper::PrefixHits,
          &RequestSweeper::Preemptions, &RequestSweeper::StepsAhead, &RequestSweeper::Recordings}) {
      if (absl::Status s = (this->*sweep)(); !s.ok()) return s;
    }
    return std::move(rows_);
  }

 private:
  EngineOptions Roomy() const {
    EngineOptions options = {.max_num_seqs = 64, .block_size = kPage, .prefix_cache = false};
    options.kv_cache_tokens = (options_.most_company + 2) *
                              (options_.prompt + options_.output + 2 * kPage) / kPage * kPage;
    return options;
  }

  bool IsDone(const Row& row) const { return options_.is_done && options_.is_done(row.name()); }

  void Add(const Row& row) {
    rows_.push_back(row.Finish());
    if (options_.on_row) options_.on_row(rows_.back());
  }

  // Runs a schedule on an engine of its own; what came of request `which`.
  absl::StatusOr<Outcome> One(const EngineOptions& options, std::vector<ScheduledRequest> requests,
                              size_t which, const ScheduleOptions& how = {}) {
    absl::StatusOr<std::unique_ptr<EngineCore>> engine =
        EngineCore::Create(std::move(model_), options);
    if (!engine.ok()) return engine.status();
    engine_ = engine->get();
    absl::StatusOr<std::vector<Outcome>> outcomes = RunSchedule(*engine_, std::move(requests), how);
    stats_ = engine_->Stats();
    engine_ = nullptr;
    model_ = EngineCore::TakeModel(*std::move(engine));
    if (!outcomes.ok()) return outcomes.status();
    return std::move((*outcomes)[which]);
  }

  absl::Status Try(Row& row, const std::string& situation, const EngineOptions& options,
                   std::vector<ScheduledRequest> requests, size_t which,
                   const ScheduleOptions& how = {}) {
    absl::StatusOr<Outcome> got = One(options, std::move(requests), which, how);
    if (!got.ok()) return got.status();
    row.Compare(situation, alone_, *got);
    return absl::OkStatus();
  }

  ScheduledRequest Neighbour(int64_t i) const {
    return {.request = company_[static_cast<size_t>(i)], .record_logits = false};
  }

  absl::Status Company() {
    Row row(absl::StrCat("company of 1 to ", options_.most_company));
    if (IsDone(row)) return absl::OkStatus();
    for (int64_t size = 1; size <= options_.most_company; ++size) {
      std::vector<ScheduledRequest> all = {{.request = request_}};
      for (int64_t i = 0; i < size; ++i) all.push_back(Neighbour(i));
      if (absl::Status s = Try(row, absl::StrCat(size, " others"), Roomy(), std::move(all), 0);
          !s.ok()) {
        return s;
      }
    }
    Add(row);
    return absl::OkStatus();
  }

  absl::Status Slots() {
    constexpr int64_t kOthers = 8;
    Row row(absl::StrCat("every slot among ", kOthers));
    if (IsDone(row)) return absl::OkStatus();
    for (int64_t slot = 0; slot <= kOthers; ++slot) {
      std::vector<ScheduledRequest> all;
      for (int64_t i = 0; i < kOthers; ++i) all.push_back(Neighbour(i % options_.most_company));
      all.insert(all.begin() + slot, {.request = request_});
      if (absl::Status s = Try(row, absl::StrCat("slot ", slot), Roomy(), std::move(all),
                               static_cast<size_t>(slot));
          !s.ok()) {
        return s;
      }
    }
    Add(row);
    return absl::OkStatus();
  }

  absl::Status Chunks() {
    Row row(absl::StrCat("prefill chunks of 1 to ", options_.prompt + 1));
    if (IsDone(row)) return absl::OkStatus();
    for (int64_t chunk = 1; chunk <= options_.prompt + 1; ++chunk) {
      EngineOptions options = Roomy();
      options.max_num_batched_tokens = chunk;
      if (absl::Status s =
              Try(row, absl::StrCat("chunks of ", chunk), options, {{.request = request_}}, 0);
          !s.ok()) {
        return s;
      }
    }
    Add(row);
    return absl::OkStatus();
  }

  absl::Status PageSizes() {
    Row row("pages of 16 to 256 tokens");
    if (IsDone(row)) return absl::OkStatus();
    for (int64_t page = kPage; page <= 256; page += kPage) {
      EngineOptions options = Roomy();
      options.block_size = page;
      options.kv_cache_tokens = 8 * (options_.prompt + options_.output + page);
      if (absl::Status s = Try(row, absl::StrCat("pages of ", page), options,
                               {Neighbour(0), {.request = request_}}, 1);
          !s.ok()) {
        return s;
      }
    }
    Add(row);
    return absl::OkStatus();
  }

  // Neighbours that come and go at random leave the free pages in another order each time, and
  // full of other sequences' keys.
  absl::Status PageTables() {
    Row row("pages in random order, used before");
    if (IsDone(row)) return absl::OkStatus();
    for (uint64_t seed = 1; seed <= 16; ++seed) {
      SplitMix random(seed);
      std::vector<ScheduledRequest> all = {
          {.request = request_, .arrive_at_step = 5 + random.Below(10)}};
      for (int64_t i = 0; i < std::min<int64_t>(12, options_.most_company); ++i) {
        ScheduledRequest other = Neighbour(i);
        other.arrive_at_step = random.Below(20);
        other.cancel_at_step = other.arrive_at_step + random.Below(6);
        all.push_back(std::move(other));
      }
      if (absl::Status s = Try(row, absl::StrCat("order ", seed), Roomy(), std::move(all), 0);
          !s.ok()) {
        return s;
      }
    }
    Add(row);
    return absl::OkStatus();
  }

  // Another request with the first `shared` tokens of this one has run before it.
  absl::Status PrefixHits() {
    Row row(absl::StrCat("prefix hits of 0 to ", options_.prompt, " tokens"));
    if (IsDone(row)) return absl::OkStatus();
    std::set<int64_t> hits;
    for (int64_t shared = 0; shared <= options_.prompt; ++shared) {
      EngineOptions options = Roomy();
      options.prefix_cache = true;
      PreparedRequest before = request_;
      before.id = "before";
      before.prompt.resize(static_cast<size_t>(shared));
      const auto vocab = static_cast<int32_t>(model_->config().vocab);
      // Then something else, and enough of it for the last page to be full.
      const int32_t other =
          shared < options_.prompt ? (request_.prompt[static_cast<size_t>(shared)] + 1) % vocab : 0;
      before.prompt.insert(before.prompt.end(), kPage, other);
      before.sampling.max_tokens = 1;
      // It arrives when the other is done.
      std::vector<ScheduledRequest> all = {{.request = std::move(before), .record_logits = false},
                                           {.request = request_, .arrive_at_step = 1000}};
      if (absl::Status s = Try(row, absl::StrCat("a hit of ", shared), options, std::move(all), 1);
          !s.ok()) {
        return s;
      }
      hits.insert(stats_.cached_tokens);
    }
    // Every number of whole pages that leaves a token to compute.
    const auto expected = static_cast<size_t>((options_.prompt - 1) / kPage + 1);
    row.Require(hits.size() == expected,
                absl::StrCat(hits.size(), " lengths of hits came up, not ", expected));
    Add(row);
    return absl::OkStatus();
  }

  // An older request that grows into a new page takes it from this one, which came later, once
  // there is no other. When it does is decided by the length of its prompt.
  absl::Status Preemptions() {
    Row row(absl::StrCat("preempted after 0 to ", options_.output - 1, " tokens"));
    if (IsDone(row)) return absl::OkStatus();
    std::set<int64_t> points;
    for (int64_t point = 0; point < options_.output; ++point) {
      const int64_t pages_then = (options_.prompt + point + kPage - 1) / kPage;
      // Both prefill in the first step; the older one has 1 + point tokens of output then.
      const int64_t older_pages = 2 + (point + kPage) / kPage;
      PreparedRequest older =
          MakeLongPrompt(*model_, older_pages * kPage - point - 1, point + kPage + 2);
      older.id = "older";
      EngineOptions options = Roomy();
      options.max_num_batched_tokens = 4096;
      options.kv_cache_tokens = kPage * std::max(older_pages + pages_then,
                                                 (options_.prompt + options_.output) / kPage + 2);
      int64_t preempted_at = -1;
      ScheduleOptions how;
      how.after_step = [&](int64_t step) {
        if (preempted_at < 0 && engine_->Stats().preemptions > 0) preempted_at = step;
      };
      if (absl::Status s =
              Try(row, absl::StrCat("preempted after ", point), options,
                  {{.request = std::move(older), .record_logits = false}, {.request = request_}}, 1,
                  how);
          !s.ok()) {
        return s;
      }
      if (preempted_at >= 0) points.insert(preempted_at);
    }
    row.Require(static_cast<int64_t>(points.size()) >= options_.output / 2,
                absl::StrCat("preempted at ", points.size(), " points only"));
    Add(row);
    return absl::OkStatus();
  }

  // Steps that are issued before the tokens of the one before are known. That needs a request whose
  // draws do not depend on its tokens, and nobody who looks at logits: log-probabilities and
  // digests are compared.
  absl::Status StepsAhead() {
    Row row("steps issued ahead or not");
    if (IsDone(row)) return absl::OkStatus();
    ScheduledRequest plain = {.request = request_, .record_logits = false};
    plain.request.sampling.repetition_penalty = 1;
    EngineOptions options = Roomy();
    options.async_scheduling = false;
    absl::StatusOr<Outcome> alone = One(options, {plain}, 0);
    if (!alone.ok()) return alone.status();
    options.async_scheduling = true;
    for (int64_t others : {0, 3}) {
      std::vector<ScheduledRequest> all = {plain};
      for (int64_t i = 0; i < others; ++i) {
        all.push_back(Neighbour(i % options_.most_company));
        all.back().request.sampling.repetition_penalty = 1;
        all.back().arrive_at_step = 2 * i;
      }
      absl::StatusOr<Outcome> got = One(options, std::move(all), 0);
      if (!got.ok()) return got.status();
      row.Compare(absl::StrCat(others, " others"), *alone, *got);
      row.Require(stats_.ahead_steps >= options_.output / 2,
                  absl::StrCat(stats_.ahead_steps, " steps issued ahead only"));
    }
    Add(row);
    return absl::OkStatus();
  }

  // A GPU replays steps that come again; alone, and among others that make more shapes of steps.
  absl::Status Recordings() {
    if (model_->backend().Info().kind != "cuda") return absl::OkStatus();
    Row row("steps eager and from recordings");
    if (IsDone(row)) return absl::OkStatus();
    for (bool eager : {true, false}) {
      for (int64_t others : {0, 3}) {
        EngineOptions options = Roomy();
        options.enforce_eager = eager;
        std::vector<ScheduledRequest> all = {{.request = request_}};
        for (int64_t i = 0; i < others; ++i) all.push_back(Neighbour(i % options_.most_company));
        if (absl::Status s =
                Try(row, absl::StrCat(eager ? "eager, " : "recorded, ", others, " others"), options,
                    std::move(all), 0);
            !s.ok()) {
          return s;
        }
      }
    }
    Add(row);
    return absl::OkStatus();
  }

  std::unique_ptr<Model>& model_;
  const RequestSweepOptions& options_;
  PreparedRequest request_;
  std::vector<PreparedRequest> company_;
  Outcome alone_;
  EngineCore* engine_ = nullptr;  // while one runs
  EngineStats stats_;             // of the last one
  std::vector<CheckRow> rows_;
};

}  // namespace

absl::StatusOr<std::vector<CheckRow>> SweepRequest(std::unique_ptr<Model>& model,
                                                   const RequestSweepOptions& options) {
  return RequestSweeper(model, options).Run();
}

}  // namespace isobit
