#include "invariance/check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "invariance/comparison.h"
#include "invariance/order/order_check.h"
#include "invariance/outcome.h"
#include "invariance/random.h"
#include "invariance/request_sweep.h"
#include "invariance/schedule.h"
#include "invariance/sweep.h"
#include "invariance/variations.h"
#include "invariance/workload.h"
#include "runtime/engine/engine_core.h"
#include "runtime/model/model.h"

namespace isobit {
namespace {

// A prompt that needs attention's second split of 1024 keys.
constexpr int64_t kLongPrompt = 1040;

constexpr int64_t kMostRowsEveryPlace = 300;

class Checker {
 public:
  Checker(const std::string& path, const BackendFactory& make_backend, const CheckOptions& options)
      : path_(path), make_backend_(make_backend), options_(options) {}

  absl::StatusOr<CheckReport> Run() {
    if (absl::Status s = Load(0); !s.ok()) return s;
    if (options_.on_model) {
      if (absl::Status s = options_.on_model(*model_); !s.ok()) return s;
    }
    if (absl::Status s = Prepare(); !s.ok()) return s;
    if (absl::Status s = RunAlone(); !s.ok()) return s;
    for (const Variation& variation : MakeVariations(base_, longest_, options_.full)) {
      if (absl::Status s = RunVariation(variation); !s.ok()) return s;
    }
    if (absl::Status s = RunScoring(); !s.ok()) return s;
    if (absl::Status s = RunLongPrompt(); !s.ok()) return s;
    if (absl::Status s = SweepAll(); !s.ok()) return s;
    if (absl::Status s = RevealAll(); !s.ok()) return s;
    if (absl::Status s = RunSchedules(); !s.ok()) return s;
    if (options_.full) {
      if (absl::Status s = RunEverySituation(); !s.ok()) return s;
    }
    // On other devices they mean nothing.
    const bool has_threads = model_->backend().Info().kind == "cpu";
    for (int threads : has_threads ? options_.thread_counts : std::vector<int>{}) {
      const Variation together = {
          .name = absl::StrCat(threads, threads == 1 ? " thread" : " threads"), .engine = base_};
      if (IsDone(together.name)) continue;
      if (absl::Status s = Load(threads); !s.ok()) return s;
      if (absl::Status s = RunVariation(together); !s.ok()) return s;
    }
    return std::move(report_);
  }

 private:
  absl::Status Load(int threads) {
    model_.reset();  // one at a time: a model may fill the memory
    auto backend = make_backend_(threads);
    if (!backend.ok()) return backend.status();
    auto model = Model::Load(path_, *std::move(backend));
    if (!model.ok()) return model.status();
    model_ = *std::move(model);
    return absl::OkStatus();
  }

  absl::Status Prepare() {
    const WorkloadSize size =
        options_.full ? WorkloadSize{.output = 48, .long_prompt = 300, .lengths = 10, .shared = 200}
                      : WorkloadSize{};
    auto requests = MakeWorkload(*model_, size);
    if (!requests.ok()) return requests.status();
    requests_ = *std::move(requests);
    base_.prefix_cache = false;
    base_.max_num_seqs = 64;
    for (const PreparedRequest& r : requests_) {
      const auto tokens = static_cast<int64_t>(r.prompt.size()) + r.sampling.max_tokens;
      longest_ = std::max(longest_, tokens);
      // In the largest pages that are tried, and as much again for company.
      base_.kv_cache_tokens += 2 * r.sampling.n * (tokens + kLargestPage);
    }
    return absl::OkStatus();
  }

  // Creates an engine, lets `body` use it, and takes the model back.
  template <typename F>
  absl::Status WithEngine(const EngineOptions& engine_options, F&& body) {
    auto engine = EngineCore::Create(std::move(model_), engine_options);
    if (!engine.ok()) return engine.status();
    body(**engine);
    model_ = EngineCore::TakeModel(*std::move(engine));
    return absl::OkStatus();
  }

  // One after the other; the first run is what all others are compared with.
  absl::Status RunAlone() {
    const auto start = Clock::now();
    EngineOptions one = base_;
    one.max_num_seqs = 1;
    Comparison comparison;
    alone_.resize(requests_.size());
    for (int run = 0; run < 2; ++run) {
      absl::Status status = WithEngine(one, [&](EngineCore& engine) {
        for (size_t k = 0; k < requests_.size(); ++k) {
          const size_t i = run == 0 ? k : requests_.size() - 1 - k;
          auto outcomes = RunSchedule(engine, {{.request = requests_[i]}});
          Outcome outcome;
          outcome.status = outcomes.status();
          if (outcomes.ok()) outcome = std::move((*outcomes)[0]);
          if (run == 0) {
            alone_[i] = std::move(outcome);
          } else {
            CompareOutcomes(alone_[i], outcome, CompareScope::kAll, &comparison);
          }
        }
      });
      if (!status.ok()) return status;
    }
    AddRow("alone, twice", comparison, start);
    return absl::OkStatus();
  }

  absl::Status RunVariation(const Variation& v) {
    if (IsDone(v.name)) return absl::OkStatus();
    const auto start = Clock::now();
    Comparison comparison;
    EngineStats stats;
    absl::Status status = WithEngine(v.engine, [&](EngineCore& engine) {
      const std::vector<size_t> order = Order(v);
      for (int run = 0; run < v.runs; ++run) {
        auto outcomes = RunSchedule(engine, Arrange(v, order, engine.model()),
                                    {.poison_free_pages = v.poison_free_pages});
        if (!outcomes.ok()) {
          comparison.Fail(std::string(outcomes.status().message()));
          return;
        }
        for (size_t k = 0; k < order.size(); ++k) {
          CompareOutcomes(alone_[order[k]], (*outcomes)[k],
                          v.ask_logprobs ? CompareScope::kAll : CompareScope::kShared, &comparison);
        }
      }
      stats = engine.Stats();
    });
    if (!status.ok()) return status;
    if (v.expect_preemption && stats.preemptions == 0) comparison.Fail("no preemption happened");
    if (v.expect_cached && stats.cached_tokens == 0) comparison.Fail("the prefix cache had no hit");
    AddRow(v.name, comparison, start);
    return absl::OkStatus();
  }

  std::vector<size_t> Order(const Variation& v) const {
    std::vector<size_t> order;
    for (size_t i = 0; i < requests_.size(); ++i) order.push_back(i);
    if (v.shuffle_seed != 0) {
      SplitMix random(v.shuffle_seed);
      Shuffle(random, order);
    }
    return order;
  }

  // The requests in this order, then noise, which arrives between them.
  std::vector<ScheduledRequest> Arrange(const Variation& v, const std::vector<size_t>& order,
                                        const Model& model) const {
    std::vector<ScheduledRequest> scheduled;
    for (size_t k = 0; k < order.size(); ++k) {
      ScheduledRequest s = {.request = requests_[order[k]],
                            .arrive_at_step = static_cast<int64_t>(k) * v.steps_between};
      if (!v.ask_logprobs) {
        s.request.sampling.logprobs.reset();
        s.request.sampling.prompt_logprobs.reset();
      }
      scheduled.push_back(std::move(s));
    }
    SplitMix random(17);
    for (PreparedRequest& noise : MakeNoise(model, 18, v.noise, v.longest_noise)) {
      ScheduledRequest s = {
          .request = std::move(noise), .arrive_at_step = random.Below(8), .record_logits = false};
      if (v.cancel_noise) {
        s.request.sampling.max_tokens = std::min<int64_t>(64, model.max_positions() / 4 + 1);
        s.cancel_at_step = s.arrive_at_step + 1 + random.Below(6);
      }
      scheduled.push_back(std::move(s));
    }
    return scheduled;
  }

  // What was decoded token by token, computed again in one prefill.
  absl::Status RunScoring() {
    const std::string name = "scored = decoded";
    if (IsDone(name)) return absl::OkStatus();
    const auto start = Clock::now();
    std::vector<ScheduledRequest> scoring;
    std::vector<std::pair<size_t, int>> of;  // request and choice
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].sampling.logprobs_mode != LogProbsMode::kRaw) continue;
      if (alone_[i].completion.choices.empty()) continue;
      for (int choice = 0; choice < requests_[i].sampling.n; ++choice) {
        scoring.push_back({.request = MakeScoring(requests_[i], alone_[i], choice)});
        of.emplace_back(i, choice);
      }
    }
    Comparison comparison;
    absl::Status status = WithEngine(base_, [&](EngineCore& engine) {
      auto scored = RunSchedule(engine, std::move(scoring));
      if (!scored.ok()) {
        comparison.Fail(std::string(scored.status().message()));
        return;
      }
      for (size_t k = 0; k < of.size(); ++k) {
        CompareDecodedWithScored(alone_[of[k].first], of[k].second, (*scored)[k], &comparison);
      }
    });
    if (!status.ok()) return status;
    AddRow(name, comparison, start);
    return absl::OkStatus();
  }

  // Whole and alone against chunks beside decoding neighbours.
  absl::Status RunLongPrompt() {
    const std::string name = absl::StrCat(kLongPrompt, " tokens, in chunks beside others");
    if (model_->max_positions() < kLongPrompt + 8 || IsDone(name)) return absl::OkStatus();
    const auto start = Clock::now();
    const PreparedRequest request = MakeLongPrompt(*model_, kLongPrompt, 4);
    Comparison comparison;
    Outcome whole;
    for (bool beside : {false, true}) {
      EngineOptions engine_options = base_;
      engine_options.kv_cache_tokens += 2 * kLongPrompt;
      engine_options.max_num_batched_tokens = beside ? 100 : 2 * kLongPrompt;
      absl::Status status = WithEngine(engine_options, [&](EngineCore& engine) {
        std::vector<ScheduledRequest> scheduled = {{.request = request}};
        if (beside) {
          for (PreparedRequest& noise : MakeNoise(engine.model(), 19, 6, 20)) {
            scheduled.push_back({.request = std::move(noise), .record_logits = false});
          }
          std::swap(scheduled.front(), scheduled.back());
        }
        auto outcomes = RunSchedule(engine, std::move(scheduled));
        if (!outcomes.ok()) {
          comparison.Fail(std::string(outcomes.status().message()));
        } else if (!beside) {
          whole = std::move(outcomes->back());
        } else {
          CompareOutcomes(whole, outcomes->back(), CompareScope::kAll, &comparison);
        }
      });
      if (!status.ok()) return status;
    }
    AddRow(name, comparison, start);
    return absl::OkStatus();
  }

  // Rounding hides most changes of order inside a model. Made to show, operation by operation.
  absl::Status SweepAll() {
    if (const std::string name = "sweeps of single operations"; !IsDone(name)) {
      const SweepOptions sweep =
          options_.full ? SweepOptions{.max_rows = 300} : SweepOptions{.max_rows = 40, .step = 3};
      const auto report = SweepOperations(model_->backend(), Shape(), sweep);
      if (!report.ok()) return report.status();
      AddSummary(name, report->rows);
    }
    const std::string name =
        absl::StrCat("one row at every batch size 1..", kMostRowsEveryPlace, " and place");
    if (!options_.full || IsDone(name)) return absl::OkStatus();
    const auto every = SweepEveryPlace(model_->backend(), model_->config().width,
                                       {.max_rows = kMostRowsEveryPlace});
    if (!every.ok()) return every.status();
    AddSummary(name, every->rows);
    return absl::OkStatus();
  }

  ModelShape Shape() const {
    const ModelConfig& config = model_->config();
    return {.width = config.width,
            .ffn_width = config.ffn_width,
            .vocab = config.vocab,
            .heads = config.heads,
            .kv_heads = config.kv_heads,
            .head_dim = config.head_dim,
            .page_tokens = 32};
  }

  // Several rows as one.
  void AddSummary(const std::string& name, const std::vector<CheckRow>& rows) {
    CheckRow all = {.name = name};
    for (const CheckRow& row : rows) {
      all.compared += row.compared;
      all.seconds += row.seconds;
      if (row.ok() || !all.first_difference.empty()) continue;
      all.first_difference = absl::StrCat(
          row.name, ": ", row.compared > 0 ? row.first_difference : "nothing was compared");
    }
    AddRow(std::move(all));
  }

  // Seen from outside: whatever the batch, sums are added in the contract's order.
  absl::Status RevealAll() {
    const std::string name = "orders of sums revealed";
    if (IsDone(name)) return absl::OkStatus();
    OrderOptions order;
    if (!options_.full) {
      // Long sums are chains like short ones; all of them are in `isobit order`.
      order = {.rows = {1, 16}, .keys = 200, .most_terms = 128};
    }
    const auto orders = RevealOrders(model_->backend(), Shape(), order);
    if (!orders.ok()) return orders.status();
    std::vector<CheckRow> rows;
    for (const RevealedOrder& o : *orders) {
      rows.push_back({.name = o.name,
                      .compared = o.terms,
                      .first_difference = o.deviation,
                      .seconds = o.seconds});
    }
    AddSummary(name, rows);
    return absl::OkStatus();
  }

  absl::Status RunSchedules() {
    const int64_t count = options_.schedules * (options_.full ? 20 : 1);
    const std::string name = absl::StrCat(count, " random schedule", count == 1 ? "" : "s");
    if (count == 0 || IsDone(name)) return absl::OkStatus();
    std::vector<CheckRow> rows;
    for (int64_t i = 0; i < count; ++i) {
      const auto start = Clock::now();
      const uint64_t seed = options_.first_schedule + static_cast<uint64_t>(i);
      const RequestSchedule schedule = MakeRandomSchedule(*model_, seed);
      const ScheduleReport report = RunAndCompare(model_, schedule);
      if (model_ == nullptr) return absl::InternalError(report.difference);
      rows.push_back({.name = absl::StrCat("schedule ", seed),
                      .compared = report.compared,
                      .first_difference = report.difference,
                      .seconds = std::chrono::duration<double>(Clock::now() - start).count()});
      if (rows.back().ok() || !options_.on_failed_schedule) continue;
      options_.on_failed_schedule(seed, Shrink(schedule, [this](const RequestSchedule& smaller) {
                                    return !RunAndCompare(model_, smaller).difference.empty();
                                  }));
      break;
    }
    AddSummary(name, rows);
    return absl::OkStatus();
  }

  absl::Status RunEverySituation() {
    RequestSweepOptions sweep;
    sweep.on_row = [this](const CheckRow& row) { AddRow(row); };
    sweep.is_done = options_.is_done;
    if (model_->max_positions() < 2 * (sweep.prompt + sweep.output)) return absl::OkStatus();
    return SweepRequest(model_, sweep).status();
  }

  using Clock = std::chrono::steady_clock;

  bool IsDone(const std::string& name) const { return options_.is_done && options_.is_done(name); }

  void AddRow(const std::string& name, const Comparison& comparison, Clock::time_point start) {
    AddRow({.name = name,
            .compared = comparison.compared(),
            .first_difference = comparison.Describe(),
            .seconds = std::chrono::duration<double>(Clock::now() - start).count()});
  }

  void AddRow(CheckRow row) {
    if (options_.on_row) options_.on_row(row);
    report_.rows.push_back(std::move(row));
  }

  const std::string path_;
  const BackendFactory& make_backend_;
  const CheckOptions& options_;
  std::unique_ptr<Model> model_;
  std::vector<PreparedRequest> requests_;
  EngineOptions base_;
  int64_t longest_ = 0;  // prompt and output of the longest request
  std::vector<Outcome> alone_;
  CheckReport report_;
};

}  // namespace

absl::StatusOr<CheckReport> CheckModel(const std::string& model_path,
                                       const BackendFactory& make_backend,
                                       const CheckOptions& options) {
  return Checker(model_path, make_backend, options).Run();
}

}  // namespace isobit
