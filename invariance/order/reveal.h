#ifndef ISOBIT_INVARIANCE_ORDER_REVEAL_H_
#define ISOBIT_INVARIANCE_ORDER_REVEAL_H_

// Finds the order of a sum from outside, by results alone.
//
// The idea is that of FPRev (Xie, Gao, Wang, Xue, "FPRev: Revealing the Order of Floating-Point
// Summation", 2024). One term is a huge number, another is minus it, and some of the rest are 1.
// Wherever the huge numbers are, every 1 that meets one of them is lost; what is added after they
// have cancelled survives. So the result counts the ones outside of the smallest partial sum that
// holds both. This works as well for steps that add many terms at once and cut each of them to the
// largest one's exponent: they lose the ones of their own step too, which makes them one node of
// many children.
//
// Sums of squares and of probabilities have no negative terms. There the question is put to three
// terms: two that are each lost beside a third, and not lost together. They raise the third only if
// they meet each other first.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/order/summation_tree.h"

namespace isobit {

// What the terms of one evaluation are: a huge number at `plus`, minus it at `minus`, one at each
// of `units`, zero elsewhere.
struct CancellingProbe {
  int32_t plus = 0;
  int32_t minus = 0;
  std::vector<int32_t> units;
};

// A sum whose terms may have either sign.
class CancellingSum {
 public:
  virtual ~CancellingSum() = default;
  virtual int64_t terms() const = 0;
  // Ones in one evaluation, of which any number comes back exactly.
  virtual int64_t most_units() const = 0;
  // The results, as counts of ones; one a probe. An error is the device's, or says that a result
  // is no such count, or that it differs between outputs that have the same terms.
  virtual absl::StatusOr<std::vector<int64_t>> Survivors(
      std::span<const CancellingProbe> probes) = 0;
};

// A term much larger than two others. These are given in quarters of its last bit; 0: no such term.
struct TripleProbe {
  int32_t large = 0;
  int32_t a = 0;
  int32_t b = 0;
  float a_quarters = 0;
  float b_quarters = 0;
};

// A sum of terms that are not negative. Each step rounds to nearest, or cuts toward zero: the terms
// of a fused step to quarters of the last bit of the largest or coarser, then their sum to that
// bit.
class NonNegativeSum {
 public:
  virtual ~NonNegativeSum() = default;
  virtual int64_t terms() const = 0;
  // Whether the result is more than the large term alone; one a probe. Terms that are not in a
  // probe count nothing. An error is the device's, or says that a result is neither.
  virtual absl::StatusOr<std::vector<bool>> Raised(std::span<const TripleProbe> probes) = 0;
};

// The order of a sum. FailedPrecondition if its results are not those of one tree, whatever the
// terms are; that is tried with some hundred random probes after the tree was found. Evaluations
// of a cancelling sum: about 2 terms for a chain, terms * log(terms) for a balanced tree; of one
// without negative terms: some times terms * log(terms).
absl::StatusOr<SummationTree> RevealOrder(CancellingSum& sum);
absl::StatusOr<SummationTree> RevealOrder(NonNegativeSum& sum);

// Any function of fp32 terms, as either of the two. Counts come back up to 2^23.
using PlainFunction = std::function<float(std::span<const float>)>;

class PlainSum : public CancellingSum, public NonNegativeSum {
 public:
  PlainSum(int64_t terms, PlainFunction function) : terms_(terms), function_(std::move(function)) {}
  int64_t terms() const override { return terms_; }
  int64_t most_units() const override { return int64_t{1} << 23; }
  absl::StatusOr<std::vector<int64_t>> Survivors(std::span<const CancellingProbe> probes) override;
  absl::StatusOr<std::vector<bool>> Raised(std::span<const TripleProbe> probes) override;

 private:
  const int64_t terms_;
  const PlainFunction function_;
};

// A result as a count of ones among `placed`; FailedPrecondition if it is none.
absl::StatusOr<int64_t> AsCount(double result, size_t placed);

// The huge number: any sum of ones is lost beside it, and bf16, fp16's products and fp32 hold it.
inline constexpr float kHuge = 0x1p+60f;

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_ORDER_REVEAL_H_
