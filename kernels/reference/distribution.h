#ifndef ISOBIT_KERNELS_REFERENCE_DISTRIBUTION_H_
#define ISOBIT_KERNELS_REFERENCE_DISTRIBUTION_H_

// A row of logits as a distribution over the vocabulary, in the order of contract 6. Shared by
// scoring and sampling; everything is sorted and walked in full.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/numerics/sampling.h"
#include "kernels/ops.h"

namespace isobit::reference {

// False if the row has no distribution: a NaN, an infinity, or no finite number at all.
inline bool IsDistribution(const std::vector<float>& z) {
  bool any_finite = false;
  for (float x : z) {
    if (IsNan(x) || x == BitsFloat(0x7f800000u)) return false;
    any_finite = any_finite || x > BitsFloat(0xff800000u);
  }
  return any_finite;
}

// Tokens of a distribution with all that is known of them. `ranked` may be a part of the
// vocabulary, in order: higher z first, then lower id.
struct Distribution {
  std::vector<float> z;         // [vocab]
  float max = 0;                // the highest z
  std::vector<int32_t> ranked;  // tokens that are left
  uint64_t Weight(int32_t token) const { return SoftmaxWeight(z[token], max); }
  uint64_t TotalWeight() const {
    uint64_t total = 0;
    for (int32_t token : ranked) total += Weight(token);
    return total;
  }
};

// REQUIRES: IsDistribution(z).
inline Distribution MakeDistribution(std::vector<float> z) {
  Distribution d;
  d.z = std::move(z);
  std::vector<uint64_t> keys;
  for (size_t token = 0; token < d.z.size(); ++token) {
    keys.push_back(RankKey(d.z[token], static_cast<uint32_t>(token)));
  }
  std::sort(keys.begin(), keys.end(), std::greater<uint64_t>());
  for (uint64_t key : keys) d.ranked.push_back(static_cast<int32_t>(RankKeyToken(key)));
  d.max = d.z[d.ranked[0]];
  return d;
}

// The first `count` tokens that are left, and token -1 past them.
inline void WriteTop(const Distribution& d, uint64_t total, int count, TokenLogProb* top) {
  for (int i = 0; i < count; ++i) {
    top[i] = TokenLogProb{};
    if (i >= static_cast<int>(d.ranked.size())) continue;
    const int32_t token = d.ranked[i];
    top[i] = {token, LogProb(d.z[token], d.max, total)};
  }
}

}  // namespace isobit::reference

#endif  // ISOBIT_KERNELS_REFERENCE_DISTRIBUTION_H_
