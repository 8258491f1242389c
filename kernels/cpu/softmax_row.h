#ifndef ISOBIT_KERNELS_CPU_SOFTMAX_ROW_H_
#define ISOBIT_KERNELS_CPU_SOFTMAX_ROW_H_

// A row of logits as a distribution over the vocabulary (contract 6), computed by slices that
// several threads can work on, and searched without sorting it.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// Scan() and Sum() of all slices may run at once; everything else is called by one thread, in the
// order in which it stands here. Keeps its memory from row to row.
class SoftmaxRow {
 public:
  // Slice s holds tokens [s * kSliceTokens, (s + 1) * kSliceTokens).
  static constexpr int64_t kSliceTokens = 8192;
  static constexpr int64_t Slices(int64_t vocab) {
    return (vocab + kSliceTokens - 1) / kSliceTokens;
  }

  // z: [vocab], must stay, but is not read before Scan().
  void Begin(const float* z, int64_t vocab);

  void Scan(const CpuContext& context, int64_t slice);
  // The maximum is known after it. False if the row is no distribution: a NaN, +infinity, or
  // nothing finite; nothing that follows may then be called.
  bool FinishScan();

  void Sum(const CpuContext& context, int64_t slice);
  // The total weight is known after it.
  void FinishSum();

  float z(int32_t token) const { return z_[token]; }
  float max() const { return max_; }
  uint64_t total() const { return total_; }

  // The lowest id among the tokens of the highest z. Needs no sums.
  int32_t Greedy() const;

  // The token at `target` of the running sum of weights in ascending id (DrawTarget).
  // REQUIRES: target < total().
  int32_t TokenAtWeight(const CpuContext& context, uint64_t target) const;

  // All tokens with z >= the returned threshold, in ascending id: at least `count` of them, or all
  // tokens, and then the threshold is -infinity.
  float CollectLikely(const CpuContext& context, int64_t count, std::vector<int32_t>& tokens);

  // Writes the `count` first tokens of the total order with their log-probabilities, then tokens
  // -1. Forbidden tokens (-infinity) are left out if asked.
  void WriteTop(const CpuContext& context, int count, bool leave_out_forbidden, TokenLogProb* top);

 private:
  int64_t SliceEnd(int64_t slice) const;

  const float* z_ = nullptr;
  int64_t vocab_ = 0;
  std::vector<float> block_max_;  // [ceil(vocab / kBlockTokens)]
  struct Slice {
    float max;
    bool valid;
    uint64_t weight;
  };
  std::vector<Slice> slices_;
  float max_ = 0;
  uint64_t total_ = 0;

  std::vector<float> maxima_by_size_;
  std::vector<int32_t> likely_;
  std::vector<uint64_t> keys_;
};

// Runs op's rows through the phases of `Row`: Begin(op, row), Scan and Sum of all slices, Finish.
// As many rows at a time as there are threads, so that a row is still in the cache for the next
// phase and one row alone has all threads.
template <typename Row, typename Op>
void RunRowPhases(CpuContext& context, const Op& op, std::vector<Row>& states) {
  const int64_t group = context.pool.threads();
  if (static_cast<int64_t>(states.size()) < group) states.resize(group);
  const int64_t slices = SoftmaxRow::Slices(op.vocab);
  for (int64_t first = 0; first < op.rows; first += group) {
    const int64_t rows = std::min(group, op.rows - first);
    for (int64_t i = 0; i < rows; ++i) states[i].Begin(op, first + i);
    context.pool.ParallelFor(rows * slices, [&](int64_t task, int) {
      states[task / slices].Scan(context, task % slices);
    });
    for (int64_t i = 0; i < rows; ++i) states[i].FinishScan();
    context.pool.ParallelFor(rows * slices, [&](int64_t task, int) {
      states[task / slices].Sum(context, task % slices);
    });
    context.pool.ParallelFor(rows, [&](int64_t task, int) { states[task].Finish(context); });
  }
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_SOFTMAX_ROW_H_
