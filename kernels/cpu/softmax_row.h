#ifndef ISOBIT_KERNELS_CPU_SOFTMAX_ROW_H_
#define ISOBIT_KERNELS_CPU_SOFTMAX_ROW_H_

// A row of logits as a distribution over the vocabulary (contract 6), computed by slices that
// several threads can work on, and searched without sorting it.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/candidates.h"
#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// The part of a row that comes first in the total order, up to one token.
struct Prefix {
  float last_z = 0;
  int32_t last_token = 0;
  uint64_t weight = 0;  // sum over the part

  bool Contains(float z, int32_t token) const {
    return z > last_z || (z == last_z && token <= last_token);
  }
};

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

  // The lowest id among the tokens of the highest z.
  int32_t Greedy() const;

  void Sum(const CpuContext& context, int64_t slice);
  // The total weight is known after it.
  void FinishSum();

  float z(int32_t token) const { return z_[token]; }
  float max() const { return max_; }
  uint64_t total() const { return total_; }

  // Tokens of a rank so high that no block of tokens can hide a higher one: at least `count`, in
  // ascending id, forbidden ones (-infinity) left out. All tokens with z >= the returned threshold
  // are among them; it is -infinity if these are all that there are.
  float CollectLikely(const CpuContext& context, int64_t count, std::vector<Candidate>& candidates);
  bool CollectsAll(int64_t count) const;

  // The tokens that top_p keeps of the whole row, `threshold` being its TopPThreshold.
  Prefix TopP(const CpuContext& context, uint64_t threshold);

  // The token at `target` of the running sum of weights in ascending id (DrawTarget): over the row,
  // or over a prefix. REQUIRES: target < total(), or < prefix.weight.
  int32_t TokenAtWeight(const CpuContext& context, uint64_t target) const;
  int32_t TokenAtWeight(const CpuContext& context, uint64_t target, const Prefix& prefix) const;

  // Writes the `count` first tokens of the total order with their log-probabilities, then tokens
  // -1. total: sum of weights to normalise by. Forbidden tokens are left out, or come last.
  void WriteTop(const CpuContext& context, uint64_t total, int count, bool leave_out_forbidden,
                TokenLogProb* top);

 private:
  struct Slice {
    float max;
    bool valid;
    uint64_t weight;
  };

  int64_t SliceEnd(int64_t slice) const;
  uint64_t WeightOfPart(const CpuContext& context, int64_t begin, int64_t end,
                        const Prefix& prefix) const;
  int32_t Walk(const CpuContext& context, int64_t begin, uint64_t target,
               const Prefix& prefix) const;
  void MakeCandidates(const CpuContext& context, int64_t count, std::vector<Candidate>& candidates);

  const float* z_ = nullptr;
  int64_t vocab_ = 0;
  std::vector<float> block_max_;  // [ceil(vocab / kBlockTokens)]
  std::vector<Slice> slices_;
  float max_ = 0;
  uint64_t total_ = 0;

  std::vector<float> maxima_by_size_;
  std::vector<int32_t> tokens_;  // [vocab and some more]
  std::vector<float> z_of_token_;
  std::vector<uint64_t> weight_of_token_;
  std::vector<Candidate> candidates_;
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
