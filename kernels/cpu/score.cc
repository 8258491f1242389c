#include "kernels/cpu/score.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/softmax_row.h"
#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

// One row on its way through the phases of RunRowPhases.
class ScoreRow {
 public:
  void Begin(const ScoreTokens& op, int64_t row) {
    op_ = &op;
    row_ = row;
    logits_.Begin(op.logits + row * op.vocab, op.vocab);
  }
  void Scan(const CpuContext& context, int64_t slice) { logits_.Scan(context, slice); }
  void FinishScan() { valid_ = logits_.FinishScan(); }
  void Sum(const CpuContext& context, int64_t slice) {
    if (valid_) logits_.Sum(context, slice);
  }
  void Finish(const CpuContext& context) {
    TokenLogProb* const top = op_->top + row_ * op_->top_count;
    if (!valid_) {
      op_->logprob[row_] = CanonicalNan();
      std::fill_n(top, op_->top_count, TokenLogProb{});
      return;
    }
    logits_.FinishSum();
    op_->logprob[row_] = LogProb(logits_.z(op_->token[row_]), logits_.max(), logits_.total());
    logits_.WriteTop(context, logits_.total(), op_->top_count, /*leave_out_forbidden=*/false, top);
  }

 private:
  const ScoreTokens* op_ = nullptr;
  int64_t row_ = 0;
  SoftmaxRow logits_;
  bool valid_ = false;
};

}  // namespace

struct ScoreRunner::Scratch {
  std::vector<ScoreRow> rows;
};

ScoreRunner::ScoreRunner(CpuContext& context)
    : context_(context), scratch_(std::make_unique<Scratch>()) {}
ScoreRunner::~ScoreRunner() = default;

void ScoreRunner::Run(const ScoreTokens& op) { RunRowPhases(context_, op, scratch_->rows); }

}  // namespace isobit
