#ifndef ISOBIT_KERNELS_CPU_TOKEN_FILTER_H_
#define ISOBIT_KERNELS_CPU_TOKEN_FILTER_H_

// min_p, top_k and top_p (contract 6), looking at likely tokens first and at the rest only if these
// do not decide.

#include <cstdint>
#include <vector>

#include "kernels/cpu/candidates.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/softmax_row.h"
#include "kernels/ops.h"

namespace isobit {

// What the filters of a row leave of its distribution. Keeps its memory from row to row.
class TokenFilter {
 public:
  // Whether the row has a filter that can take anything out of `vocab` tokens.
  static bool Wanted(const SamplingRow& row, int64_t vocab);

  // REQUIRES: z is scanned and summed, and stays as it is.
  void Apply(const CpuContext& context, const SamplingRow& row, SoftmaxRow& z);

  // Sum of the weights of what is left.
  uint64_t total() const { return total_; }
  // The token at `target` of the running sum in ascending id. REQUIRES: target < total().
  int32_t TokenAtWeight(const CpuContext& context, uint64_t target) const;
  // The `count` first tokens of the total order with their log-probabilities, then tokens -1.
  void WriteTop(const CpuContext& context, int count, TokenLogProb* top);

 private:
  bool Select(const SamplingRow& row, float threshold);
  void KeepFrom(uint64_t key);
  uint64_t SumOfKept() const;

  SoftmaxRow* z_ = nullptr;
  uint64_t total_ = 0;
  bool wide_ = false;
  Prefix prefix_;                // what is left, if wide_
  std::vector<Candidate> kept_;  // else, in ascending id
  std::vector<Candidate> by_rank_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_TOKEN_FILTER_H_
