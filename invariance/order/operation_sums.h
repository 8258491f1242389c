#ifndef ISOBIT_INVARIANCE_ORDER_OPERATION_SUMS_H_
#define ISOBIT_INVARIANCE_ORDER_OPERATION_SUMS_H_

// The sums inside a backend's operations, as order revealing sees them: terms in, result out. They
// know nothing of how a backend computes.
//
// Every output that has the same terms must give the same result, or the sum reports it: so one
// revealed order holds for all columns of a GEMM and of an attention that were looked at. Each row
// of a batch and each head carries probes of its own, so that a row or head with another order
// gives results that fit no one tree, or another tree.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/order/reveal.h"
#include "kernels/ops.h"

namespace isobit {

// One output of a linear layer. Terms 0 .. k - 1 are the products; then bias and residual, where
// they exist.
struct GemmSumShape {
  int64_t rows = 1;  // of the batch in which the probes are
  int64_t n = 32;    // rows of the weight
  int64_t k = 0;
  enum class Kind {
    kFp32,
    kBf16,
    kBiasResidual,  // bf16
    kGate,          // the gate half of kSiluGate
    kUp,            // its other half
  } kind = Kind::kFp32;

  int64_t terms() const { return k + (kind == Kind::kBiasResidual ? 2 : 0); }
  // What the contract says.
  SummationTree Contract() const;
};
// An error is the backend's: no memory. REQUIRES: k >= 4, n >= 4; n even for kGate and kUp.
absl::StatusOr<std::unique_ptr<CancellingSum>> MakeGemmSum(Backend& backend,
                                                           const GemmSumShape& shape);

// The sum of squares of a row. eps is chosen so that the mean of one square cancels, and the
// smallest change of the sum is the difference between a finite result and an infinite one.
absl::StatusOr<std::unique_ptr<NonNegativeSum>> MakeRmsNormSum(Backend& backend, int64_t rows,
                                                               int64_t width);

// One output of attention: the sum over keys of probabilities (here all 1) times values, or the sum
// of the probabilities alone, by which it is divided; through all splits and their merges. Terms
// are the keys that the last row of a sequence of `keys` tokens sees.
struct AttentionSumShape {
  int64_t rows = 1;  // that are attended to in one step: 1 is decoding, more a chunk of a prefill
  int64_t keys = 0;
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 64;
  int page_tokens = 32;
  int window = 0;

  int64_t first_key() const { return window > 0 && keys > window ? keys - window : 0; }
  int64_t terms() const { return keys - first_key(); }
  SummationTree Contract() const;
};
absl::StatusOr<std::unique_ptr<CancellingSum>> MakeAttentionSum(Backend& backend,
                                                                const AttentionSumShape& shape);
// REQUIRES: head_dim >= 2.
absl::StatusOr<std::unique_ptr<NonNegativeSum>> MakeAttentionRowSum(Backend& backend,
                                                                    const AttentionSumShape& shape);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_ORDER_OPERATION_SUMS_H_
