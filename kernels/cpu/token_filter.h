#ifndef ISOBIT_KERNELS_CPU_TOKEN_FILTER_H_
#define ISOBIT_KERNELS_CPU_TOKEN_FILTER_H_

// min_p, top_k and top_p (contract 6) on the likely part of a distribution, without sorting.

#include <cstdint>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/ops.h"

namespace isobit {

// What the filters of a row left of its distribution. Keeps its memory from row to row.
class TokenFilter {
 public:
  // Whether the row has a filter that can take anything out of `vocab` tokens.
  static bool Wanted(const SamplingRow& row, int64_t vocab);

  // REQUIRES: z is scanned and summed.
  void Apply(const CpuContext& context, const SamplingRow& row, SoftmaxRow& z);

  // Sum of the weights of what was left.
  uint64_t total() const { return total_; }
  // The token at `target` of the running sum in ascending id. REQUIRES: target < total().
  int32_t TokenAtWeight(uint64_t target) const;
  // The `count` first tokens of the total order with their log-probabilities, then tokens -1.
  void WriteTop(const SoftmaxRow& z, int count, TokenLogProb* top);

 private:
  struct Candidate {
    uint64_t key;  // RankKey
    uint64_t weight;
  };

  void Collect(const CpuContext& context, int64_t count, SoftmaxRow& z);
  bool Select(const SamplingRow& row, const SoftmaxRow& z);
  uint64_t KeyOfRank(int64_t rank);
  uint64_t LastKeyOfTopP(uint64_t threshold);
  void KeepFrom(uint64_t key);
  uint64_t SumOfCandidates() const;

  std::vector<Candidate> candidates_;  // in ascending id
  float threshold_ = 0;                // all tokens of z >= threshold_ are candidates
  uint64_t total_ = 0;

  std::vector<Candidate> by_rank_;  // partly sorted copies
  std::vector<int32_t> tokens_;
  std::vector<float> z_of_token_;
  std::vector<uint64_t> weight_of_token_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_TOKEN_FILTER_H_
