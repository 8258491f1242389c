#ifndef ISOBIT_INVARIANCE_SWEEP_H_
#define ISOBIT_INVARIANCE_SWEEP_H_

// Operations of a backend, one by one: every row alone, and then in batches of every size, at every
// place, among random neighbours. A row's result must be the same bits each time.
//
// Neighbours include rows of wide exponents, of zeros and with NaN; memory behind the last row
// holds NaN, and so do KV pages that were not written. What comes back names the first difference:
// the batch size, the row, the column, both values.
//
// The sweeps know of no reference: a backend that is wrong in the same way everywhere passes.
// Values are compared with the contract in the tests of each kernel.

#include <cstdint>

#include "absl/status/statusor.h"
#include "invariance/report.h"
#include "kernels/ops.h"

namespace isobit {

struct SweepOptions {
  int64_t max_rows = 300;  // batch sizes 1 .. max_rows
  int64_t step = 1;        // from one batch size to the next
  uint64_t seed = 1;
  // In batches of each size, one and the same row stands at every place in turn, among neighbours
  // of a new order each time: max_rows^2 / 2 batches instead of max_rows.
  bool every_place = false;
};

// Each returns one row; an error is the backend's (no memory, a failed device).

absl::StatusOr<CheckRow> SweepEmbed(Backend& backend, int64_t vocab, int64_t width,
                                    const SweepOptions& options);

enum class NormRows {
  kWild,
  kPicked,  // the same through row_index, out of rows in another order
  kTies,    // rows whose scale lies at a tie of bf16, so that the last bit of their sum shows
};
absl::StatusOr<CheckRow> SweepRmsNorm(Backend& backend, int64_t width, NormRows kind,
                                      const SweepOptions& options);

struct GemmSweep {
  int64_t n = 0;  // rows of the weight
  int64_t k = 0;
  Gemm::Epilogue epilogue = Gemm::Epilogue::kBf16;
  bool bias = false;
  enum class Residual { kNone, kOwn, kInPlace } residual = Residual::kNone;
};
absl::StatusOr<CheckRow> SweepGemm(Backend& backend, const GemmSweep& gemm,
                                   const SweepOptions& options);

absl::StatusOr<CheckRow> SweepScoring(Backend& backend, int64_t vocab, const SweepOptions& options);
absl::StatusOr<CheckRow> SweepSampling(Backend& backend, int64_t vocab,
                                       const SweepOptions& options);

// Rotation, KV write and attention together. A sequence's keys are written at once, by the product,
// then the rotation; and again in chunks by QkvProjection, to pages of another size in another
// order, beside other sequences. Its rows are attended to alone, and in batches of decoding rows
// and chunks of every size.
struct AttentionSweep {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 32;
  int64_t sequences = 24;
  int64_t max_context = 200;  // length of the first; others are shorter
  int window = 0;
  // Keys that grow with their position along one direction: for a query with it scores rise, so
  // that the running maximum moves in every block; for one against it they fall.
  bool rising_keys = false;
};
absl::StatusOr<CheckRow> SweepAttention(Backend& backend, const AttentionSweep& attention,
                                        const SweepOptions& options);

// The operations whose rows are free, each on a narrow shape: one row at every batch size and every
// place. `width` is the length of sums.
absl::StatusOr<CheckReport> SweepEveryPlace(Backend& backend, int64_t width,
                                            const SweepOptions& options);

// All of the above with the shapes of a model.
absl::StatusOr<CheckReport> SweepOperations(Backend& backend, const ModelShape& shape,
                                            const SweepOptions& options,
                                            const CheckRowCallback& on_row = nullptr);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_SWEEP_H_
