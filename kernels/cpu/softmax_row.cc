#include "kernels/cpu/softmax_row.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <limits>

#include "kernels/cpu/softmax.h"
#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// CompressStore of TokensAtLeast writes whole vectors.
constexpr int64_t kStoreSlack = 16;

}  // namespace

void SoftmaxRow::Begin(const float* z, int64_t vocab) {
  z_ = z;
  vocab_ = vocab;
  block_max_.resize((vocab + kBlockTokens - 1) / kBlockTokens);
  slices_.resize(Slices(vocab));
}

int64_t SoftmaxRow::SliceEnd(int64_t slice) const {
  return std::min(vocab_, (slice + 1) * kSliceTokens);
}

void SoftmaxRow::Scan(const CpuContext& context, int64_t slice) {
  static_assert(kSliceTokens % kBlockTokens == 0);
  const int64_t begin = slice * kSliceTokens, end = SliceEnd(slice);
  float* const first = block_max_.data() + begin / kBlockTokens;
  float* const last = first + (end - begin + kBlockTokens - 1) / kBlockTokens;
  slices_[slice].valid = BlockMaxima(context, z_ + begin, end - begin, first);
  slices_[slice].max = *std::max_element(first, last);
}

bool SoftmaxRow::FinishScan() {
  max_ = -kInfinity;
  bool valid = true;
  for (const Slice& slice : slices_) {
    valid = valid && slice.valid;
    max_ = std::max(max_, slice.max);
  }
  return valid && max_ > -kInfinity && max_ < kInfinity;
}

void SoftmaxRow::Sum(const CpuContext& context, int64_t slice) {
  const int64_t begin = slice * kSliceTokens;
  slices_[slice].weight = SumOfWeights(context, z_ + begin, SliceEnd(slice) - begin, max_);
}

void SoftmaxRow::FinishSum() {
  total_ = 0;
  for (const Slice& slice : slices_) total_ += slice.weight;
}

int32_t SoftmaxRow::Greedy() const {
  const auto block = std::find(block_max_.begin(), block_max_.end(), max_) - block_max_.begin();
  int64_t token = block * kBlockTokens;
  while (z_[token] != max_) ++token;
  return static_cast<int32_t>(token);
}

int32_t SoftmaxRow::TokenAtWeight(const CpuContext& context, uint64_t target) const {
  assert(target < total_);
  int64_t slice = 0;
  while (target >= slices_[slice].weight) target -= slices_[slice++].weight;
  // Within the slice by parts of some blocks, then token by token.
  constexpr int64_t kPart = 8 * kBlockTokens;
  std::array<uint64_t, kPart> weight;
  for (int64_t begin = slice * kSliceTokens;; begin += kPart) {
    const int64_t n = std::min(kPart, SliceEnd(slice) - begin);
    const uint64_t sum = SumOfWeights(context, z_ + begin, n, max_);
    if (target >= sum) {
      target -= sum;
      continue;
    }
    WeightsOfRow(context, z_ + begin, n, max_, weight.data());
    int64_t i = 0;
    while (target >= weight[i]) target -= weight[i++];
    return static_cast<int32_t>(begin + i);
  }
}

float SoftmaxRow::CollectLikely(const CpuContext& context, int64_t count,
                                std::vector<int32_t>& tokens) {
  // `count` blocks have a maximum of at least the count-th largest one, so at least as many tokens
  // do, and all of them are in blocks with such a maximum.
  const int64_t blocks = static_cast<int64_t>(block_max_.size());
  float threshold = -kInfinity;
  if (count < blocks) {
    maxima_by_size_ = block_max_;
    const auto nth = maxima_by_size_.begin() + count - 1;
    std::nth_element(maxima_by_size_.begin(), nth, maxima_by_size_.end(), std::greater<float>());
    threshold = *nth;
  }
  const auto reaches = [&](float max) { return max >= threshold; };
  const int64_t chosen = std::count_if(block_max_.begin(), block_max_.end(), reaches);
  tokens.resize(chosen * kBlockTokens + kStoreSlack);
  int64_t collected = 0;
  for (auto run = std::find_if(block_max_.begin(), block_max_.end(), reaches);
       run != block_max_.end();) {
    const auto run_end = std::find_if_not(run, block_max_.end(), reaches);
    const int64_t first = (run - block_max_.begin()) * kBlockTokens;
    const int64_t end = std::min((run_end - block_max_.begin()) * kBlockTokens, vocab_);
    collected += TokensAtLeast(context, z_ + first, end - first, threshold,
                               static_cast<int32_t>(first), tokens.data() + collected);
    run = std::find_if(run_end, block_max_.end(), reaches);
  }
  tokens.resize(collected);
  return threshold;
}

void SoftmaxRow::WriteTop(const CpuContext& context, int count, bool leave_out_forbidden,
                          TokenLogProb* top) {
  if (count <= 0) return;
  CollectLikely(context, count, likely_);
  keys_.clear();
  for (int32_t token : likely_) {
    if (leave_out_forbidden && z_[token] == -kInfinity) continue;
    keys_.push_back(RankKey(z_[token], static_cast<uint32_t>(token)));
  }
  const int64_t found = std::min<int64_t>(count, static_cast<int64_t>(keys_.size()));
  std::partial_sort(keys_.begin(), keys_.begin() + found, keys_.end(), std::greater<uint64_t>());
  for (int64_t i = 0; i < found; ++i) {
    const int32_t token = static_cast<int32_t>(RankKeyToken(keys_[i]));
    top[i] = {token, LogProb(z_[token], max_, total_)};
  }
  std::fill(top + found, top + count, TokenLogProb{});
}

}  // namespace isobit
