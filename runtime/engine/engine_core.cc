#include "runtime/engine/engine_core.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// body(begin, size) for consecutive slices of [0, count).
template <typename F>
absl::Status InSlices(size_t count, size_t most, F&& body) {
  for (size_t begin = 0; begin < count; begin += most) {
    const size_t size = std::min(most, count - begin);
    if (absl::Status s = body(begin, size); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

EngineCore::EngineCore(std::unique_ptr<Model> model, const EngineOptions& options)
    : model_(std::move(model)),
      options_(options),
      auditor_(options.audit_share, options.audit_seed.value_or(0)) {}

EngineCore::~EngineCore() { FailAll(absl::CancelledError("the engine is shutting down")); }

std::unique_ptr<Model> EngineCore::TakeModel(std::unique_ptr<EngineCore> engine) {
  engine->FailAll(absl::CancelledError("the engine is shutting down"));
  std::unique_ptr<Model> model = std::move(engine->model_);
  engine.reset();  // before the model goes anywhere: its backend holds the engine's memory
  return model;
}

// ---- Requests in

void EngineCore::Add(PreparedRequest request) {
  ActiveRequest& active = requests_[request.handle];
  active.request = std::move(request);
  const PreparedRequest& r = active.request;
  active.completion.id = r.id;
  active.completion.prompt_token_ids = r.prompt;
  active.completion.model_digest = model_->digest();
  active.completion.model_name = model_->config().name;
  if (!IsGreedy(r.sampling)) active.completion.seed = r.seed;
  if (r.redraw) return AddRedraw(active);
  if (r.sampling.prompt_logprobs) active.completion.prompt_logprobs.emplace(1);
  active.completion.choices.resize(static_cast<size_t>(r.sampling.n));
  active.unfinished = r.sampling.n;
  for (int i = 0; i < r.sampling.n; ++i) {
    active.sequences.push_back(
        std::make_unique<Sequence>(next_sequence_id_++, i, r.prompt, r.sampling, r.seed,
                                   options_.max_model_len, model_->tokenizer(), model_->digest()));
    Wait({&active, active.sequences.back().get()});
  }
}

// A sequence of all tokens that are known, of which none is drawn.
void EngineCore::AddRedraw(ActiveRequest& active) {
  PreparedRequest& r = active.request;
  active.redrawer =
      std::make_unique<Redrawer>(r.prompt, r.sampling, r.seed, *std::move(r.redraw),
                                 options_.max_model_len, model_->tokenizer(), model_->digest());
  active.completion.choices.resize(1);
  active.unfinished = 1;
  SamplingParams nothing;
  nothing.max_tokens = 0;
  active.sequences.push_back(std::make_unique<Sequence>(
      next_sequence_id_++, 0, active.redrawer->ComputedTokens(), nothing, r.seed,
      options_.max_model_len, model_->tokenizer(), model_->digest()));
  Wait({&active, active.sequences.back().get()});
}

void EngineCore::Wait(const Member& member) {
  members_[member.sequence->id] = member;
  waiting_.push_back(member);
}

void EngineCore::Cancel(RequestHandle handle) {
  const auto it = requests_.find(handle);
  if (it == requests_.end()) return;
  for (const auto& sequence : it->second.sequences) {
    if (sequence->finished()) continue;
    sequence->Finish(FinishReason::kCancelled);
    Leave({&it->second, sequence.get()});
  }
  EndRequests();
}

// ---- One step

absl::Status EngineCore::Step() {
  model_->backend().BeginRange("step");
  const absl::Status status = RunStep();
  model_->backend().EndRange();
  if (!status.ok()) Fail(status);
  return status;
}

absl::Status EngineCore::Settle() {
  if (issued_.empty()) return absl::OkStatus();
  const absl::Status status = Collect();
  if (!status.ok()) Fail(status);
  return status;
}

void EngineCore::Fail(const absl::Status& status) {
  failure_ = status;
  FailAll(status);
}

absl::Status EngineCore::RunStep() {
  const StepPlan plan = MakePlan();
  if (!issued_.empty() && !CanIssueAhead(plan)) return Collect();
  if (plan.items.empty()) return absl::InternalError("the scheduler found nothing to run");
  Preempt(plan.preempted);
  Admit(std::span(plan.items).last(static_cast<size_t>(plan.admitted)));
  const StepWork work = Prepare(plan);

  forward_->Run(work.rows);
  ++stats_.steps;
  stats_.ahead_steps += !issued_.empty();
  IssuedStep& step = issued_.emplace_back();
  if (absl::Status s = ScorePrompts(work.to_score); !s.ok()) return s;
  if (absl::Status s = Sample(work.to_sample, step); !s.ok()) return s;
  if (absl::Status s = RedrawTokens(work.to_redraw, step.drawing.size()); !s.ok()) return s;
  step.done = model_->backend().PlaceFence();
  for (const Member& member : work.redrawn) {
    member.sequence->Finish(FinishReason::kLength);
    Leave(member);
  }
  return async_scheduling_ && issued_.size() < 2 ? absl::OkStatus() : Collect();
}

// What it needs to know of the sequences is known before their tokens are.
bool EngineCore::CanIssueAhead(const StepPlan& plan) const {
  if (plan.items.empty() || !plan.preempted.empty()) return false;
  return std::ranges::all_of(plan.items, [this](const StepPlan::Item& item) {
    const Member& member = members_.at(item.id);
    return !member.request->redrawer && !ScoresPrompt(member) &&
           !member.request->request.callbacks.on_logits &&
           (member.sequence->drawing == 0 || member.sequence->DrawsAhead());
  });
}

StepPlan EngineCore::MakePlan() const {
  return Schedule(RunningStates(), WaitingStates(), pool_->available(),
                  {.max_num_seqs = options_.max_num_seqs,
                   .max_num_batched_tokens = options_.max_num_batched_tokens,
                   .page_tokens = options_.block_size});
}

std::vector<SequenceState> EngineCore::RunningStates() const {
  std::vector<SequenceState> states;
  // From the last to the first: a page becomes available with the first of its holders that is the
  // only one left.
  std::vector<int32_t> released(static_cast<size_t>(pool_->pages()), 0);
  for (size_t i = running_.size(); i-- > 0;) {
    const Sequence& sequence = *running_[i].sequence;
    if (sequence.DrawsLast()) continue;  // it keeps its pages until it is seen to have ended
    int64_t exclusive = 0;
    for (int32_t page : sequence.pages) {
      exclusive += ++released[static_cast<size_t>(page)] == pool_->holders(page);
    }
    states.push_back({.id = sequence.id,
                      .tokens = sequence.length(),
                      .computed = sequence.computed,
                      .pages = static_cast<int64_t>(sequence.pages.size()),
                      .exclusive = exclusive});
  }
  std::ranges::reverse(states);
  return states;
}

// Only as many as the limits could admit: looking up a prefix costs a hash of its tokens.
std::vector<SequenceState> EngineCore::WaitingStates() const {
  std::vector<SequenceState> states;
  const int64_t seats = options_.max_num_seqs - static_cast<int64_t>(running_.size());
  int64_t tokens = 0;
  for (const Member& member : waiting_) {
    if (static_cast<int64_t>(states.size()) >= seats) break;
    if (tokens >= options_.max_num_batched_tokens) break;
    const std::vector<int32_t> pages = CachedPages(member);
    const auto count = static_cast<int64_t>(pages.size());
    states.push_back({.id = member.sequence->id,
                      .tokens = member.sequence->size(),
                      .computed = count * options_.block_size,
                      .pages = count,
                      .exclusive = pool_->CountUnheld(pages)});
    tokens += states.back().tokens - states.back().computed;
  }
  return states;
}

// At least one token is left to compute, and all prompt rows that still have to be scored. What is
// checked is computed anew: the cache may be what is wrong.
std::vector<int32_t> EngineCore::CachedPages(const Member& member) const {
  if (member.request->redrawer) return {};
  const Sequence& sequence = *member.sequence;
  int64_t usable = sequence.size() - 1;
  if (ScoresPrompt(member)) usable = std::min(usable, member.request->scored);
  return pool_->Find(std::span(sequence.tokens()).first(static_cast<size_t>(usable)));
}

// Choice 0 does it for all.
bool EngineCore::ScoresPrompt(const Member& member) {
  return !member.request->redrawer && member.sequence->choice == 0 &&
         member.request->request.sampling.prompt_logprobs &&
         member.request->scored + 1 < member.sequence->prompt_size();
}

void EngineCore::Preempt(std::span<const int64_t> ids) {
  for ([[maybe_unused]] int64_t id : ids) {
    assert(running_.back().sequence->id == id);
    const Member member = running_.back();
    running_.pop_back();
    GiveBackPages(*member.sequence);
    waiting_.push_front(member);
    ++stats_.preemptions;
  }
}

void EngineCore::Admit(std::span<const StepPlan::Item> items) {
  for ([[maybe_unused]] const StepPlan::Item& item : items) {
    const Member member = waiting_.front();
    waiting_.pop_front();
    running_.push_back(member);
    Sequence& sequence = *member.sequence;
    assert(sequence.id == item.id);
    // All of these are held before any page is allocated, so that none of them is overwritten.
    sequence.pages = CachedPages(member);
    for (int32_t page : sequence.pages) pool_->Hold(page);
    sequence.computed = static_cast<int64_t>(sequence.pages.size()) * options_.block_size;
    sequence.published = static_cast<int64_t>(sequence.pages.size());
    sequence.published_as =
        sequence.pages.empty() ? PrefixEnd() : pool_->EndAt(sequence.pages.back());
    assert(sequence.computed == item.begin);
    stats_.cached_tokens += sequence.computed;
    if (!sequence.admitted_before) {
      sequence.cached_tokens = sequence.computed;
      if (sequence.choice == 0) member.request->completion.cached_tokens = sequence.computed;
      sequence.admitted_before = true;
    }
  }
}

EngineCore::StepWork EngineCore::Prepare(const StepPlan& plan) {
  StepWork work;
  StepRows& rows = work.rows;
  rows.first_row.push_back(0);
  for (const StepPlan::Item& item : plan.items) {
    const Member& member = members_.at(item.id);
    Sequence& sequence = *member.sequence;
    for (int64_t i = 0; i < item.new_pages; ++i) sequence.pages.push_back(*pool_->Allocate());

    const auto index = static_cast<int32_t>(rows.sequences());
    const int64_t end = item.begin + item.count;
    const bool scores = ScoresPrompt(member);
    for (int64_t position = item.begin; position < end; ++position) {
      const LogitRow logit_row = {member, static_cast<int32_t>(rows.rows()), position};
      if (scores && position >= member.request->scored && position + 1 < sequence.prompt_size()) {
        work.to_score.push_back(logit_row);
      }
      if (const Redrawer* redrawer = member.request->redrawer.get()) {
        if (redrawer->Wants(position)) work.to_redraw.push_back(logit_row);
        if (position + 1 == sequence.size()) work.redrawn.push_back(member);
      } else if (position + 1 == sequence.length()) {
        work.to_sample.push_back(logit_row);
      }
      rows.token_ids.push_back(position < sequence.size()
                                   ? sequence.tokens()[static_cast<size_t>(position)]
                                   : DrawnTokenId(sequence.drawn_row));
      rows.position.push_back(static_cast<int32_t>(position));
      rows.sequence.push_back(index);
    }
    rows.first_row.push_back(static_cast<int32_t>(rows.rows()));
    rows.page_table_stride =
        std::max(rows.page_table_stride, static_cast<int64_t>(sequence.pages.size()));
    rows.max_context = std::max(rows.max_context, end);
    sequence.computed = end;
    const int64_t of_prompt =
        std::max<int64_t>(0, std::min(end, sequence.prompt_size()) - item.begin);
    stats_.prompt_tokens += of_prompt;
  }
  for (const StepPlan::Item& item : plan.items) {
    Sequence& sequence = *members_.at(item.id).sequence;
    std::vector<int32_t> table = sequence.pages;
    table.resize(static_cast<size_t>(rows.page_table_stride), 0);
    rows.page_table.insert(rows.page_table.end(), table.begin(), table.end());
    // Other sequences find them from the next plan on, when this step is issued before theirs.
    if (!members_.at(item.id).request->redrawer) PublishPages(sequence);
  }
  return work;
}

// ---- After the forward pass

void EngineCore::PublishPages(Sequence& sequence) {
  const int64_t full = std::min(sequence.computed, sequence.size()) / options_.block_size;
  for (; sequence.published < full; ++sequence.published) {
    const auto begin = static_cast<size_t>(sequence.published * options_.block_size);
    const auto tokens =
        std::span(sequence.tokens()).subspan(begin, static_cast<size_t>(options_.block_size));
    sequence.published_as = pool_->Publish(sequence.pages[static_cast<size_t>(sequence.published)],
                                           sequence.published_as, tokens);
  }
}

absl::Status EngineCore::ScorePrompts(std::span<const LogitRow> rows) {
  return InSlices(rows.size(), static_cast<size_t>(logit_rows_), [&](size_t begin, size_t size) {
    const auto slice = rows.subspan(begin, size);
    std::vector<int32_t> row_index, targets;
    int top_count = 0;
    for (const LogitRow& r : slice) {
      row_index.push_back(r.row);
      targets.push_back(r.member.sequence->tokens()[static_cast<size_t>(r.position + 1)]);
      top_count = std::max(top_count,
                           static_cast<int>(*r.member.request->request.sampling.prompt_logprobs));
    }
    const float* logits = forward_->Logits(row_index);
    if (absl::Status s = ReportLogits(slice, logits); !s.ok()) return s;
    std::vector<ScoredToken> scored;
    if (absl::Status s = sampler_->Score(logits, targets, top_count, &scored); !s.ok()) return s;
    for (size_t i = 0; i < size; ++i) {
      ActiveRequest& active = *slice[i].member.request;
      auto& top = scored[i].top;
      const auto wanted = static_cast<size_t>(*active.request.sampling.prompt_logprobs);
      if (top.size() > wanted) top.resize(wanted);
      active.completion.prompt_logprobs->push_back({targets[i], scored[i].logprob, std::move(top)});
      ++active.scored;
    }
    return absl::OkStatus();
  });
}

absl::Status EngineCore::Sample(std::span<const LogitRow> rows, IssuedStep& step) {
  return InSlices(rows.size(), static_cast<size_t>(logit_rows_), [&](size_t begin, size_t size) {
    const auto slice = rows.subspan(begin, size);
    std::vector<int32_t> row_index;
    std::vector<SamplingRow> params;
    std::vector<LogitEdit> edits;
    for (const LogitRow& r : slice) {
      row_index.push_back(r.row);
      params.push_back(r.member.sequence->NextRow(&edits));
    }
    const float* logits = forward_->Logits(row_index);
    if (absl::Status s = ReportLogits(slice, logits); !s.ok()) return s;
    if (absl::Status s = sampler_->Draw(logits, params, edits, begin, &step.draws.emplace_back());
        !s.ok()) {
      return s;
    }
    for (const LogitRow& r : slice) {
      Sequence& sequence = *r.member.sequence;
      ++sequence.drawing;
      sequence.drawn_row = static_cast<int32_t>(step.drawing.size());
      step.drawing.push_back(sequence.id);
    }
    return absl::OkStatus();
  });
}

absl::Status EngineCore::Collect() {
  IssuedStep& step = issued_.front();
  if (absl::Status s = model_->backend().Wait(step.done); !s.ok()) return s;
  auto id = step.drawing.begin();
  for (const Draws& draws : step.draws) {
    for (size_t row = 0; row < draws.sampled.size(); ++row) {
      const auto found = members_.find(*id++);
      if (found == members_.end()) continue;  // it has ended meanwhile
      const Member member = found->second;    // which leaves members_ if it ends now
      Deliver(member, draws.sampled[row], draws.TopOf(row));
    }
  }
  issued_.pop_front();
  EndRequests();
  StartAudit();
  return absl::OkStatus();
}

absl::Status EngineCore::RedrawTokens(std::span<const LogitRow> rows, size_t first_draw) {
  return InSlices(rows.size(), static_cast<size_t>(logit_rows_), [&](size_t begin, size_t size) {
    std::vector<int32_t> row_index;
    std::vector<SamplingRow> params;
    std::vector<LogitEdit> edits;
    std::vector<const LogitRow*> drawn;
    for (const LogitRow& r : rows.subspan(begin, size)) {
      ActiveRequest& active = *r.member.request;
      if (!active.failure.ok()) continue;
      const absl::StatusOr<SamplingRow> row = active.redrawer->NextRow(r.position, &edits);
      if (!row.ok()) {
        active.failure = row.status();
        ended_.push_back(active.request.handle);
        continue;
      }
      row_index.push_back(r.row);
      params.push_back(*row);
      params.back().top_count = 0;
      drawn.push_back(&r);
    }
    if (drawn.empty()) return absl::OkStatus();
    const float* logits = forward_->Logits(row_index);
    Draws draws;
    absl::Status status = sampler_->Draw(logits, params, edits, first_draw, &draws);
    // In any case: nothing writes to `draws` after this.
    status.Update(model_->backend().Synchronize());
    if (!status.ok()) return status;
    for (size_t i = 0; i < drawn.size(); ++i) {
      const ActiveRequest& active = *drawn[i]->member.request;
      const auto& on_redrawn = active.request.callbacks.on_redrawn;
      if (on_redrawn) on_redrawn(active.redrawer->IndexOf(drawn[i]->position), draws.sampled[i]);
    }
    return absl::OkStatus();
  });
}

absl::Status EngineCore::ReportLogits(std::span<const LogitRow> rows, const float* logits) {
  const auto vocab = static_cast<size_t>(model_->config().vocab);
  std::vector<float> host(vocab);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& on_logits = rows[i].member.request->request.callbacks.on_logits;
    if (!on_logits) continue;
    model_->backend().Download(logits + i * vocab, vocab * sizeof(float), host.data());
    if (absl::Status s = model_->backend().Synchronize(); !s.ok()) return s;
    on_logits(rows[i].member.sequence->choice, rows[i].position, host);
  }
  return absl::OkStatus();
}

void EngineCore::Deliver(const Member& member, const SampledToken& token,
                         std::vector<TokenLogProb> top) {
  Sequence& sequence = *member.sequence;
  ActiveRequest& active = *member.request;
  --sequence.drawing;
  if (active.request.sampling.max_tokens == 0) {
    sequence.Finish(FinishReason::kLength);
  } else if (token.token < 0) {
    active.failure =
        absl::InternalError(absl::StrCat("no token can be drawn at position ", sequence.size(),
                                         ": every logit is -infinity, or one is not a number"));
    ended_.push_back(active.request.handle);
    return;
  } else {
    const std::string text = sequence.Append(token, std::move(top));
    ++stats_.generated_tokens;
    if (active.request.callbacks.on_token) {
      active.request.callbacks.on_token({.choice = sequence.choice,
                                         .token_id = token.token,
                                         .text = text,
                                         .logprobs = sequence.last_logprobs(),
                                         .model_digest = model_->digest()});
    }
  }
  if (sequence.finished()) return Leave(member);
  PublishPages(sequence);
}

// ---- Ends

void EngineCore::GiveBackPages(Sequence& sequence) {
  for (size_t i = sequence.pages.size(); i-- > 0;) pool_->Release(sequence.pages[i]);
  sequence.pages.clear();
  sequence.computed = 0;
  sequence.published = 0;
  sequence.published_as = {};
}

void EngineCore::Leave(const Member& member) {
  Sequence& sequence = *member.sequence;
  GiveBackPages(sequence);
  auto is_it = [&](const Member& other) { return other.sequence == &sequence; };
  std::erase_if(running_, is_it);
  std::erase_if(waiting_, is_it);
  members_.erase(sequence.id);
  ActiveRequest& active = *member.request;
  active.completion.choices[static_cast<size_t>(sequence.choice)] = sequence.TakeChoice();
  if (--active.unfinished == 0) ended_.push_back(active.request.handle);
}

void EngineCore::EndRequests() {
  std::vector<RequestHandle> ended = std::exchange(ended_, {});
  for (RequestHandle handle : ended) {
    const auto it = requests_.find(handle);
    if (it != requests_.end()) EndRequest(it->second);
  }
}

void EngineCore::EndRequest(ActiveRequest& active) {
  for (const auto& sequence : active.sequences) {
    const auto member = members_.find(sequence->id);
    if (member == members_.end()) continue;
    GiveBackPages(*sequence);
    std::erase_if(running_, [&](const Member& m) { return m.sequence == sequence.get(); });
    std::erase_if(waiting_, [&](const Member& m) { return m.sequence == sequence.get(); });
    members_.erase(member);
  }
  // The callback comes last: nothing of the request is left when it runs.
  auto node = requests_.extract(active.request.handle);
  ActiveRequest& ended = node.mapped();
  if (!ended.failure.ok()) {
    ended.request.callbacks.on_done(ended.failure);
    return;
  }
  DigestBuilder digest;
  digest.Add("isobit choices");
  for (const Choice& choice : ended.completion.choices) digest.Add(choice.digest);
  ended.completion.digest = digest.Finish();
  NoteForAudit(ended);
  ended.request.callbacks.on_done(std::move(ended.completion));
}

// ---- Audits

void EngineCore::NoteForAudit(const ActiveRequest& active) {
  if (!auditor_.enabled() || active.redrawer) return;
  for (const auto& sequence : active.sequences) {
    const auto& choice = active.completion.choices[static_cast<size_t>(sequence->choice)];
    if (choice.token_ids.empty() || choice.finish_reason == FinishReason::kCancelled) continue;
    if (!auditor_.Note(sequence->size() - sequence->cached_tokens)) continue;
    const PreparedRequest& r = active.request;
    AuditCandidate candidate = {
        .id = r.id,
        .prompt = r.prompt,
        .sampling = r.sampling,
        .seed = r.seed,
        .redraw = {.choice = choice.index, .output = choice.token_ids, .at = {}},
        .logprobs = sequence->drawn_logprobs()};
    for (size_t i = 0; i < choice.token_ids.size(); ++i) {
      candidate.redraw.at.push_back(static_cast<int64_t>(i));
    }
    auditor_.Take(std::move(candidate));
  }
}

void EngineCore::StartAudit() {
  const AuditCandidate* audit = auditor_.Next();
  if (audit == nullptr) return;
  PreparedRequest request = {.handle = kAuditHandle,
                             .id = audit->id,
                             .prompt = audit->prompt,
                             .sampling = audit->sampling,
                             .seed = audit->seed,
                             .redraw = audit->redraw};
  request.callbacks.on_redrawn = [this](int64_t index, const SampledToken& token) {
    auditor_.Compare(index, token);
  };
  request.callbacks.on_done = [this](const absl::StatusOr<Completion>& completion) {
    auditor_.Finish(completion.ok());
  };
  Add(std::move(request));
}

void EngineCore::FailAll(const absl::Status& status) {
  if (!issued_.empty()) {
    model_->backend().Synchronize().IgnoreError();  // draws are copied into issued_ until then
    issued_.clear();
  }
  for (auto& [handle, active] : requests_) {
    active.failure = status;
    ended_.push_back(handle);
  }
  EndRequests();
}

void EngineCore::FillBlankPages(Bf16 value) {
  model_->backend().FillPages(*cache_, pool_->blank(), value);
}

EngineStats EngineCore::Stats() const {
  EngineStats stats = stats_;
  stats.replayed_steps = forward_->replayed_steps();
  stats.waiting = static_cast<int64_t>(waiting_.size());
  stats.running = static_cast<int64_t>(running_.size());
  stats.kv_pages = pool_->pages();
  stats.kv_pages_in_use = pool_->in_use();
  stats.kv_pages_cached = pool_->cached();
  stats.audits = auditor_.audits();
  stats.audited_tokens = auditor_.audited_tokens();
  stats.audit_differences = auditor_.differences();
  stats.first_audit_difference = auditor_.first_difference();
  return stats;
}

absl::Status EngineCore::CheckIntegrity() const {
  std::vector<int32_t> held;
  int64_t last_id = 0;
  auto check = [&](const Member& member, bool running) {
    const Sequence& s = *member.sequence;
    if (s.id <= last_id) {
      return absl::InternalError(absl::StrCat("queue: sequence ", s.id, " after ", last_id));
    }
    last_id = s.id;
    if (s.finished() || s.computed >= s.length()) {
      return absl::InternalError(absl::StrCat("queue: sequence ", s.id, " has nothing to run"));
    }
    const int64_t needed = CeilDiv(s.computed, options_.block_size);
    if (static_cast<int64_t>(s.pages.size()) != needed || (!running && needed != 0)) {
      return absl::InternalError(absl::StrCat("queue: sequence ", s.id, " holds ", s.pages.size(),
                                              " pages for ", s.computed, " computed tokens"));
    }
    held.insert(held.end(), s.pages.begin(), s.pages.end());
    return absl::OkStatus();
  };
  for (const Member& member : running_) {
    if (absl::Status s = check(member, true); !s.ok()) return s;
  }
  for (const Member& member : waiting_) {
    if (absl::Status s = check(member, false); !s.ok()) return s;
  }
  if (members_.size() != running_.size() + waiting_.size()) {
    return absl::InternalError(absl::StrCat("queue: ", members_.size(), " sequences, ",
                                            running_.size(), " running and ", waiting_.size(),
                                            " waiting"));
  }
  return pool_->CheckIntegrity(held);
}

}  // namespace isobit
