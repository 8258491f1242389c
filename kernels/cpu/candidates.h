#ifndef ISOBIT_KERNELS_CPU_CANDIDATES_H_
#define ISOBIT_KERNELS_CPU_CANDIDATES_H_

// Selection by the total order of tokens (contract 6) without sorting.

#include <cstdint>
#include <vector>

#include "kernels/numerics/sampling.h"

namespace isobit {

struct Candidate {
  uint64_t key;     // RankKey: higher is earlier in the total order
  uint64_t weight;  // SoftmaxWeight
  int32_t token() const { return static_cast<int32_t>(RankKeyToken(key)); }
};

// The key that `rank` (0: the first) others stand before. Takes linear time and reorders.
// REQUIRES: 0 <= rank < candidates.size().
uint64_t KeyOfRank(int64_t rank, std::vector<Candidate>& candidates);

// The last key before which the weights add up to less than `threshold`, `before` being the weight
// of what stands before all candidates. Takes linear time and reorders.
// REQUIRES: candidates are not empty, before < threshold.
uint64_t LastKeyOfTopP(uint64_t before, uint64_t threshold, std::vector<Candidate>& candidates);

// Brings the first `count` candidates (or all) in order to the front; returns how many.
int64_t SortFirst(int64_t count, std::vector<Candidate>& candidates);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_CANDIDATES_H_
