#include "kernels/cpu/token_filter.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint64_t kTopPOff = uint64_t{1} << 32;

// How many likely tokens to look at first, and how many times more if these do not decide.
constexpr int64_t kFirstCandidates = 64;
constexpr int64_t kMoreCandidates = 16;

// No token with a lower z weighs more: exp2 is within one ulp, so nearly monotonic.
uint64_t WeightBound(float z, float max) {
  const uint64_t weight = SoftmaxWeight(z, max);
  return weight + (weight >> 20) + 1;
}

}  // namespace

bool TokenFilter::Wanted(const SamplingRow& row, int64_t vocab) {
  return row.min_p_q32 > 0 || (row.top_k > 0 && row.top_k < vocab) || row.top_p_q32 < kTopPOff;
}

void TokenFilter::Apply(const CpuContext& context, const SamplingRow& row, SoftmaxRow& z) {
  z_ = &z;
  wide_ = false;
  const bool only_top_p = row.min_p_q32 == 0 && row.top_k <= 0;
  int64_t count = std::max<int64_t>(kFirstCandidates, row.top_k);
  for (;; count *= kMoreCandidates) {
    if (only_top_p && z.CollectsAll(count)) {
      // Most of the vocabulary may be left, so it is not listed.
      wide_ = true;
      prefix_ = z.TopP(context, TopPThreshold(row.top_p_q32, z.total()));
      total_ = prefix_.weight;
      return;
    }
    const float threshold = z.CollectLikely(context, count, kept_);
    if (Select(row, threshold)) break;
  }
  total_ = SumOfKept();
}

// Applies the filters to kept_, which holds all tokens of z >= threshold. False if the others could
// matter.
bool TokenFilter::Select(const SamplingRow& row, float threshold) {
  // Whether what is left of kept_ is what is left of the whole vocabulary.
  bool closed = threshold == -kInfinity;
  const uint64_t min_weight = MinPThreshold(row.min_p_q32);
  if (min_weight > 0) {
    closed = closed || WeightBound(threshold, z_->max()) < min_weight;
    std::erase_if(kept_, [&](const Candidate& c) { return c.weight < min_weight; });
  }
  if (row.top_k > 0) {
    const int64_t left = static_cast<int64_t>(kept_.size());
    closed = closed || left >= row.top_k;
    if (left > row.top_k) {
      by_rank_ = kept_;
      KeepFrom(KeyOfRank(row.top_k - 1, by_rank_));
    }
  }
  if (row.top_p_q32 < kTopPOff) {
    const bool unfiltered = min_weight == 0 && row.top_k <= 0;
    if (!closed && !unfiltered) return false;  // the total is not known
    const uint64_t sum = SumOfKept();
    const uint64_t top_p = TopPThreshold(row.top_p_q32, closed ? sum : z_->total());
    if (sum < top_p) return false;
    by_rank_ = kept_;
    KeepFrom(LastKeyOfTopP(/*before=*/0, top_p, by_rank_));
    closed = true;
  }
  return closed;
}

void TokenFilter::KeepFrom(uint64_t key) {
  std::erase_if(kept_, [&](const Candidate& c) { return c.key < key; });
}

uint64_t TokenFilter::SumOfKept() const {
  uint64_t sum = 0;
  for (const Candidate& c : kept_) sum += c.weight;
  return sum;
}

int32_t TokenFilter::TokenAtWeight(const CpuContext& context, uint64_t target) const {
  assert(target < total_);
  if (wide_) return z_->TokenAtWeight(context, target, prefix_);
  size_t i = 0;
  while (target >= kept_[i].weight) target -= kept_[i++].weight;
  return kept_[i].token();
}

void TokenFilter::WriteTop(const CpuContext& context, int count, TokenLogProb* top) {
  if (wide_) {
    z_->WriteTop(context, total_, count, /*leave_out_forbidden=*/true, top);
    const auto filtered_out = [&](const TokenLogProb& t) {
      return t.token >= 0 && !prefix_.Contains(z_->z(t.token), t.token);
    };
    std::replace_if(top, top + count, filtered_out, TokenLogProb{});
    return;
  }
  by_rank_ = kept_;
  const int64_t found = SortFirst(count, by_rank_);
  for (int64_t i = 0; i < found; ++i) {
    const int32_t token = by_rank_[i].token();
    top[i] = {token, LogProb(z_->z(token), z_->max(), total_)};
  }
  std::fill(top + found, top + count, TokenLogProb{});
}

}  // namespace isobit
