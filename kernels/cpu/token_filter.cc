#include "kernels/cpu/token_filter.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/cpu/softmax.h"
#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint64_t kTopPOff = uint64_t{1} << 32;

// How many likely tokens to look at first, and how many more each time they do not decide.
constexpr int64_t kFirstCandidates = 64;
constexpr int64_t kMoreCandidates = 16;

constexpr auto kHigherRank = [](const auto& a, const auto& b) { return a.key > b.key; };

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
  int64_t count = std::max<int64_t>(kFirstCandidates, row.top_k);
  for (;; count *= kMoreCandidates) {
    Collect(context, count, z);
    if (Select(row, z)) break;
  }
  total_ = SumOfCandidates();
}

void TokenFilter::Collect(const CpuContext& context, int64_t count, SoftmaxRow& z) {
  threshold_ = z.CollectLikely(context, count, tokens_);
  const size_t n = tokens_.size();
  z_of_token_.resize(n);
  weight_of_token_.resize(n);
  for (size_t i = 0; i < n; ++i) z_of_token_[i] = z.z(tokens_[i]);
  WeightsOfRow(context, z_of_token_.data(), static_cast<int64_t>(n), z.max(),
               weight_of_token_.data());
  candidates_.clear();
  for (size_t i = 0; i < n; ++i) {
    if (z_of_token_[i] == -kInfinity) continue;  // forbidden
    candidates_.push_back(
        {RankKey(z_of_token_[i], static_cast<uint32_t>(tokens_[i])), weight_of_token_[i]});
  }
}

// Applies the filters to the candidates. False if tokens that are not among them could matter.
// `closed`: what is left of the candidates is what is left of the whole vocabulary.
bool TokenFilter::Select(const SamplingRow& row, const SoftmaxRow& z) {
  bool closed = threshold_ == -kInfinity;
  const uint64_t min_weight = MinPThreshold(row.min_p_q32);
  if (min_weight > 0) {
    closed = closed || WeightBound(threshold_, z.max()) < min_weight;
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < min_weight; });
  }
  if (row.top_k > 0) {
    const int64_t left = static_cast<int64_t>(candidates_.size());
    closed = closed || left >= row.top_k;
    if (left > row.top_k) KeepFrom(KeyOfRank(row.top_k - 1));
  }
  if (row.top_p_q32 < kTopPOff) {
    const uint64_t sum = SumOfCandidates();
    // Nothing was filtered yet if the set is still open and no other filter is on.
    if (!closed && (min_weight > 0 || row.top_k > 0)) return false;
    const uint64_t threshold = TopPThreshold(row.top_p_q32, closed ? sum : z.total());
    if (sum < threshold) return false;
    closed = true;
    KeepFrom(LastKeyOfTopP(threshold));
  }
  return closed;
}

uint64_t TokenFilter::KeyOfRank(int64_t rank) {
  by_rank_ = candidates_;
  std::nth_element(by_rank_.begin(), by_rank_.begin() + rank, by_rank_.end(), kHigherRank);
  return by_rank_[rank].key;
}

// The last token in rank before which the weights add up to less than `threshold`. Narrows [low,
// high) around it by halves; each half is selected, not sorted, so all of it takes linear time.
uint64_t TokenFilter::LastKeyOfTopP(uint64_t threshold) {
  by_rank_ = candidates_;
  size_t low = 0, high = by_rank_.size();
  uint64_t before = 0;  // weights of ranks below `low`
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    std::nth_element(by_rank_.begin() + low, by_rank_.begin() + middle, by_rank_.begin() + high,
                     kHigherRank);
    uint64_t upper = 0;
    for (size_t i = low; i < middle; ++i) upper += by_rank_[i].weight;
    if (before + upper < threshold) {
      before += upper;
      low = middle;
    } else {
      high = middle;
    }
  }
  return by_rank_[low].key;
}

void TokenFilter::KeepFrom(uint64_t key) {
  std::erase_if(candidates_, [&](const Candidate& c) { return c.key < key; });
}

uint64_t TokenFilter::SumOfCandidates() const {
  uint64_t sum = 0;
  for (const Candidate& c : candidates_) sum += c.weight;
  return sum;
}

int32_t TokenFilter::TokenAtWeight(uint64_t target) const {
  assert(target < total_);
  size_t i = 0;
  while (target >= candidates_[i].weight) target -= candidates_[i++].weight;
  return static_cast<int32_t>(RankKeyToken(candidates_[i].key));
}

void TokenFilter::WriteTop(const SoftmaxRow& z, int count, TokenLogProb* top) {
  by_rank_ = candidates_;
  const size_t found = std::min(by_rank_.size(), static_cast<size_t>(count));
  std::partial_sort(by_rank_.begin(), by_rank_.begin() + found, by_rank_.end(), kHigherRank);
  for (size_t i = 0; i < found; ++i) {
    const int32_t token = static_cast<int32_t>(RankKeyToken(by_rank_[i].key));
    top[i] = {token, LogProb(z.z(token), z.max(), total_)};
  }
  std::fill(top + found, top + count, TokenLogProb{});
}

}  // namespace isobit
