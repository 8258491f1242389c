#include "kernels/cpu/softmax_row.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/cpu/softmax.h"
#include "kernels/numerics/sampling.h"

namespace isobit {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// TokensBetween stores whole vectors.
constexpr int64_t kStoreSlack = 16;

// The next fp32 above a finite z or -infinity.
float NextAbove(float z) {
  if (z == 0.0f) return std::numeric_limits<float>::denorm_min();
  return BitsFloat(z > 0.0f ? FloatBits(z) + 1 : FloatBits(z) - 1);
}

// Bounds of z that all tokens of a bucket keep, a little wide: rounding may move a token by some
// ulp of its z or of the maximum.
struct BucketBounds {
  float low;
  float high;
};
BucketBounds BoundsOfBucket(int bucket, float max) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const double slack = (std::fabs(static_cast<double>(max)) + kBuckets) * 0x1p-20;
  const double low = max - (bucket + 1) / static_cast<double>(kBucketsPerUnit) - slack;
  const double high = max - bucket / static_cast<double>(kBucketsPerUnit) + slack;
  return {static_cast<float>(std::max(low, -kLargest)),
          static_cast<float>(std::min(high, kLargest))};
}

}  // namespace

void SoftmaxRow::Begin(const float* z, int64_t vocab) {
  z_ = z;
  vocab_ = vocab;
  block_max_.resize((vocab + kBlockTokens - 1) / kBlockTokens);
  slices_.resize(Slices(vocab));
  if (static_cast<int64_t>(tokens_.size()) < vocab + kStoreSlack) {
    tokens_.resize(vocab + kStoreSlack);
  }
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

int32_t SoftmaxRow::Greedy() const {
  const auto block = std::find(block_max_.begin(), block_max_.end(), max_) - block_max_.begin();
  int64_t token = block * kBlockTokens;
  while (z_[token] != max_) ++token;
  return static_cast<int32_t>(token);
}

void SoftmaxRow::Sum(const CpuContext& context, int64_t slice) {
  const int64_t begin = slice * kSliceTokens;
  slices_[slice].weight =
      SumOfWeights(context, z_ + begin, SliceEnd(slice) - begin, max_, -kInfinity);
}

void SoftmaxRow::FinishSum() {
  total_ = 0;
  for (const Slice& slice : slices_) total_ += slice.weight;
}

bool SoftmaxRow::CollectsAll(int64_t count) const {
  return count >= static_cast<int64_t>(block_max_.size());
}

// Makes candidates of the first `count` of tokens_.
void SoftmaxRow::MakeCandidates(const CpuContext& context, int64_t count,
                                std::vector<Candidate>& candidates) {
  z_of_token_.resize(count);
  weight_of_token_.resize(count);
  for (int64_t i = 0; i < count; ++i) z_of_token_[i] = z_[tokens_[i]];
  WeightsOfRow(context, z_of_token_.data(), count, max_, weight_of_token_.data());
  candidates.resize(count);
  for (int64_t i = 0; i < count; ++i) {
    candidates[i] = {RankKey(z_of_token_[i], static_cast<uint32_t>(tokens_[i])),
                     weight_of_token_[i]};
  }
}

float SoftmaxRow::CollectLikely(const CpuContext& context, int64_t count,
                                std::vector<Candidate>& candidates) {
  // `count` blocks have a maximum of at least the count-th largest one, so at least as many tokens
  // do, and all of them are in blocks with such a maximum.
  float threshold = -kInfinity;
  if (!CollectsAll(count)) {
    maxima_by_size_ = block_max_;
    const auto nth = maxima_by_size_.begin() + count - 1;
    std::nth_element(maxima_by_size_.begin(), nth, maxima_by_size_.end(), std::greater<float>());
    threshold = *nth;
  }
  const float lowest = std::max(threshold, std::numeric_limits<float>::lowest());
  const auto reaches = [&](float max) { return max >= lowest; };
  int64_t collected = 0;
  for (auto run = std::find_if(block_max_.begin(), block_max_.end(), reaches);
       run != block_max_.end();) {
    const auto run_end = std::find_if_not(run, block_max_.end(), reaches);
    const int64_t first = (run - block_max_.begin()) * kBlockTokens;
    const int64_t end = std::min((run_end - block_max_.begin()) * kBlockTokens, vocab_);
    collected += TokensBetween(context, z_ + first, end - first, lowest, kInfinity,
                               static_cast<int32_t>(first), tokens_.data() + collected);
    run = std::find_if(run_end, block_max_.end(), reaches);
  }
  MakeCandidates(context, collected, candidates);
  return threshold;
}

Prefix SoftmaxRow::TopP(const CpuContext& context, uint64_t threshold) {
  std::array<uint64_t, kBuckets> bucket_weight{};
  AddToBuckets(context, z_, vocab_, max_, bucket_weight.data());
  uint64_t before = 0;
  int bucket = 0;
  while (before + bucket_weight[bucket] < threshold) before += bucket_weight[bucket++];

  const BucketBounds bounds = BoundsOfBucket(bucket, max_);
  const int64_t near =
      TokensBetween(context, z_, vocab_, bounds.low, bounds.high, /*first=*/0, tokens_.data());
  const auto inside = [&](int32_t token) { return BucketOf(z_[token], max_) == bucket; };
  const int64_t count =
      std::partition(tokens_.begin(), tokens_.begin() + near, inside) - tokens_.begin();
  MakeCandidates(context, count, candidates_);
  const uint64_t last_key = LastKeyOfTopP(before, threshold, candidates_);
  Prefix prefix;
  prefix.last_token = static_cast<int32_t>(RankKeyToken(last_key));
  prefix.last_z = z_[prefix.last_token];
  prefix.weight = before;
  for (const Candidate& c : candidates_) {
    if (c.key >= last_key) prefix.weight += c.weight;
  }
  return prefix;
}

int32_t SoftmaxRow::TokenAtWeight(const CpuContext& context, uint64_t target) const {
  assert(target < total_);
  int64_t slice = 0;
  while (target >= slices_[slice].weight) target -= slices_[slice++].weight;
  const Prefix all = {-kInfinity, static_cast<int32_t>(vocab_), total_};
  return Walk(context, slice * kSliceTokens, target, all);
}

int32_t SoftmaxRow::TokenAtWeight(const CpuContext& context, uint64_t target,
                                  const Prefix& prefix) const {
  assert(target < prefix.weight);
  return Walk(context, 0, target, prefix);
}

// Sum over the tokens in [begin, end) that are in the prefix.
uint64_t SoftmaxRow::WeightOfPart(const CpuContext& context, int64_t begin, int64_t end,
                                  const Prefix& prefix) const {
  // Up to the last token its z belongs to the prefix, from there on only higher ones do.
  const int64_t border = std::clamp<int64_t>(prefix.last_token + int64_t{1}, begin, end);
  return SumOfWeights(context, z_ + begin, border - begin, max_, prefix.last_z) +
         SumOfWeights(context, z_ + border, end - border, max_, NextAbove(prefix.last_z));
}

// Goes from `begin` by parts of some blocks, then token by token.
int32_t SoftmaxRow::Walk(const CpuContext& context, int64_t begin, uint64_t target,
                         const Prefix& prefix) const {
  constexpr int64_t kPart = 8 * kBlockTokens;
  for (;; begin += kPart) {
    const int64_t end = std::min(begin + kPart, vocab_);
    const uint64_t sum = WeightOfPart(context, begin, end, prefix);
    if (target >= sum) {
      target -= sum;
      continue;
    }
    std::array<uint64_t, kPart> weight;
    WeightsOfRow(context, z_ + begin, end - begin, max_, weight.data());
    for (int64_t token = begin;; ++token) {
      if (!prefix.Contains(z_[token], static_cast<int32_t>(token))) continue;
      if (target < weight[token - begin]) return static_cast<int32_t>(token);
      target -= weight[token - begin];
    }
  }
}

void SoftmaxRow::WriteTop(const CpuContext& context, uint64_t total, int count,
                          bool leave_out_forbidden, TokenLogProb* top) {
  if (count <= 0) return;
  const float threshold = CollectLikely(context, count, candidates_);
  int64_t written = SortFirst(count, candidates_);
  for (int64_t i = 0; i < written; ++i) {
    const int32_t token = candidates_[i].token();
    top[i] = {token, LogProb(z_[token], max_, total)};
  }
  if (threshold == -kInfinity && !leave_out_forbidden) {
    for (int32_t token = 0; token < vocab_ && written < count; ++token) {
      if (z_[token] == -kInfinity) top[written++] = {token, LogProb(z_[token], max_, total)};
    }
  }
  std::fill(top + written, top + count, TokenLogProb{});
}

}  // namespace isobit
