#include "kernels/cpu/candidates.h"

#include <algorithm>
#include <cstddef>

namespace isobit {
namespace {

bool Earlier(const Candidate& a, const Candidate& b) { return a.key > b.key; }

}  // namespace

uint64_t KeyOfRank(int64_t rank, std::vector<Candidate>& candidates) {
  std::nth_element(candidates.begin(), candidates.begin() + rank, candidates.end(), Earlier);
  return candidates[rank].key;
}

uint64_t LastKeyOfTopP(uint64_t before, uint64_t threshold, std::vector<Candidate>& candidates) {
  // The key looked for is in [low, high), and `before` counts everything before `low`. The range is
  // halved by selection, so that all rounds together take linear time.
  const auto begin = candidates.begin();
  size_t low = 0, high = candidates.size();
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    std::nth_element(begin + low, begin + middle, begin + high, Earlier);
    uint64_t upper = 0;
    for (size_t i = low; i < middle; ++i) upper += candidates[i].weight;
    if (before + upper < threshold) {
      before += upper;
      low = middle;
    } else {
      high = middle;
    }
  }
  return candidates[low].key;
}

int64_t SortFirst(int64_t count, std::vector<Candidate>& candidates) {
  const int64_t sorted = std::min(count, static_cast<int64_t>(candidates.size()));
  std::partial_sort(candidates.begin(), candidates.begin() + sorted, candidates.end(), Earlier);
  return sorted;
}

}  // namespace isobit
