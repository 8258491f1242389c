#include "kernels/cpu/sample.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/softmax.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/cpu/token_filter.h"
#include "kernels/numerics/philox.h"
#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

// One row on its way through the phases of RunRowPhases. `raw_` is the row as it left the model,
// `edited_` what the draw sees before filters; if nothing is edited they are one.
class SampleRow {
 public:
  void Begin(const SampleTokens& op, int64_t row);
  void Scan(const CpuContext& context, int64_t slice);
  void FinishScan();
  void Sum(const CpuContext& context, int64_t slice);
  void Finish(const CpuContext& context);

 private:
  void WriteEdited(const CpuContext& context, int64_t slice);
  bool NeedsEditedSum() const { return !greedy_ || params_->processed != 0; }
  SoftmaxRow& seen() { return same_ ? raw_ : edited_; }
  int32_t Draw(const CpuContext& context);

  const SampleTokens* op_ = nullptr;
  const SamplingRow* params_ = nullptr;
  const float* logits_ = nullptr;
  SampledToken* sampled_ = nullptr;
  TokenLogProb* top_ = nullptr;
  bool greedy_ = false;
  bool filtered_ = false;
  bool same_ = false;
  bool valid_ = false;
  SoftmaxRow raw_;
  SoftmaxRow edited_;
  std::vector<float> edited_logits_;
  TokenFilter filter_;
};

void SampleRow::Begin(const SampleTokens& op, int64_t row) {
  op_ = &op;
  params_ = op.params + row;
  logits_ = op.logits + row * op.vocab;
  sampled_ = op.sampled + row;
  top_ = op.top + row * op.top_stride;
  greedy_ = IsGreedy(params_->temperature);
  filtered_ = !greedy_ && TokenFilter::Wanted(*params_, op.vocab);
  same_ = (greedy_ || params_->temperature == 1.0f) && params_->edit_begin == params_->edit_end;
  raw_.Begin(logits_, op.vocab);
  if (same_) return;
  if (static_cast<int64_t>(edited_logits_.size()) < op.vocab) edited_logits_.resize(op.vocab);
  edited_.Begin(edited_logits_.data(), op.vocab);
}

void SampleRow::WriteEdited(const CpuContext& context, int64_t slice) {
  const int64_t begin = slice * SoftmaxRow::kSliceTokens;
  const int64_t end = std::min(op_->vocab, begin + SoftmaxRow::kSliceTokens);
  if (greedy_) {
    std::copy(logits_ + begin, logits_ + end, edited_logits_.data() + begin);
  } else {
    ApplyTemperatureToRow(context, logits_ + begin, end - begin, params_->temperature,
                          edited_logits_.data() + begin);
  }
  for (int32_t e = params_->edit_begin; e < params_->edit_end; ++e) {
    const LogitEdit& edit = op_->edits[e];
    if (edit.token < begin || edit.token >= end) continue;
    const float z = EditLogit(logits_[edit.token], edit.bias, edit.seen != 0, edit.output_count,
                              params_->repetition_penalty, params_->frequency_penalty,
                              params_->presence_penalty);
    edited_logits_[edit.token] = greedy_ ? z : ApplyTemperature(z, params_->temperature);
  }
}

void SampleRow::Scan(const CpuContext& context, int64_t slice) {
  raw_.Scan(context, slice);
  if (same_) return;
  WriteEdited(context, slice);
  edited_.Scan(context, slice);
}

void SampleRow::FinishScan() {
  valid_ = raw_.FinishScan();
  if (!same_) valid_ = edited_.FinishScan() && valid_;
}

void SampleRow::Sum(const CpuContext& context, int64_t slice) {
  if (!valid_) return;
  raw_.Sum(context, slice);
  if (!same_ && NeedsEditedSum()) edited_.Sum(context, slice);
}

int32_t SampleRow::Draw(const CpuContext& context) {
  if (greedy_) return seen().Greedy();
  const uint64_t bits = DrawBits(params_->seed, params_->sample_index, params_->position);
  if (filtered_) return filter_.TokenAtWeight(context, DrawTarget(bits, filter_.total()));
  return seen().TokenAtWeight(context, DrawTarget(bits, seen().total()));
}

void SampleRow::Finish(const CpuContext& context) {
  *sampled_ = SampledToken{};
  std::fill_n(top_, op_->top_stride, TokenLogProb{});
  if (!valid_) return;
  raw_.FinishSum();
  if (!same_ && NeedsEditedSum()) edited_.FinishSum();
  if (filtered_) filter_.Apply(context, *params_, seen());

  const int32_t token = Draw(context);
  sampled_->token = token;
  sampled_->logprob = LogProb(raw_.z(token), raw_.max(), raw_.total());
  if (params_->processed == 0) {
    raw_.WriteTop(context, raw_.total(), params_->top_count, /*leave_out_forbidden=*/false, top_);
    return;
  }
  const uint64_t total = filtered_ ? filter_.total() : seen().total();
  sampled_->processed_logprob = LogProb(seen().z(token), seen().max(), total);
  if (filtered_) {
    filter_.WriteTop(context, params_->top_count, top_);
  } else {
    seen().WriteTop(context, total, params_->top_count, /*leave_out_forbidden=*/true, top_);
  }
}

}  // namespace

struct SampleRunner::Scratch {
  std::vector<SampleRow> rows;
};

SampleRunner::SampleRunner(CpuContext& context)
    : context_(context), scratch_(std::make_unique<Scratch>()) {}
SampleRunner::~SampleRunner() = default;

void SampleRunner::Run(const SampleTokens& op) { RunRowPhases(context_, op, scratch_->rows); }

}  // namespace isobit
