#include "runtime/engine/auditor.h"

#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/philox.h"

namespace isobit {
std::string DescribeDrawn(int32_t token, float logprob) {
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), logprob);
  return absl::StrFormat("id %d, logprob %s (%08x)", token, std::string(digits, end.ptr),
                         FloatBits(logprob));
}

// Reservoir sampling: whenever the budget is reached, each choice since the last audit is the
// candidate with equal chance.
bool Auditor::Note(int64_t computed) {
  if (!enabled()) return false;
  budget_ += share_ * static_cast<double>(computed);
  ++seen_;
  return DrawBits(seed_, 0, draws_++) % seen_ == 0;
}

const AuditCandidate* Auditor::Next() {
  if (!candidate_ || running_ || static_cast<double>(candidate_->tokens()) > budget_) {
    return nullptr;
  }
  running_ = std::exchange(candidate_, std::nullopt);
  budget_ -= static_cast<double>(running_->tokens());
  seen_ = 0;
  differs_ = false;
  return &*running_;
}

void Auditor::Compare(int64_t index, const SampledToken& again) {
  const auto i = static_cast<size_t>(index);
  const int32_t token = running_->redraw.output[i];
  const float logprob = running_->logprobs[i];
  if (again.token == token && FloatBits(again.logprob) == FloatBits(logprob)) return;
  differs_ = true;
  if (!first_difference_.empty()) return;
  first_difference_ = absl::StrCat(running_->id, ", choice ", running_->redraw.choice, ", token ",
                                   index, ": delivered ", DescribeDrawn(token, logprob), "; again ",
                                   DescribeDrawn(again.token, again.logprob));
}

void Auditor::Finish(bool finished) {
  if (finished) {
    ++audits_;
    audited_tokens_ += running_->tokens();
    differences_ += differs_ ? 1 : 0;
  }
  running_.reset();
}

}  // namespace isobit
