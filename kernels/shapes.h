#ifndef ISOBIT_KERNELS_SHAPES_H_
#define ISOBIT_KERNELS_SHAPES_H_

// Checks of shapes that are the same for every backend. All of them are safe against overflow and
// name the number at fault.

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

struct MatrixShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

// The matrix that the parts make. InvalidArgument if there are none, if one is empty, if their
// widths differ, if kGateUp has not two parts of equal shape, or if the bytes do not fit int64_t.
absl::StatusOr<MatrixShape> CheckMatrixParts(std::span<const MatrixSource> parts,
                                             WeightLayout layout);

// Bytes of keys and values. InvalidArgument if a number is not positive, page_tokens is not a
// multiple of 16, or the bytes do not fit int64_t.
absl::StatusOr<int64_t> CheckKvCacheShape(const KvCacheShape& shape);

// What every backend asks of a model: positive sizes, query heads a multiple of key heads,
// page_tokens a multiple of 16, and the limits within which the contract's arithmetic holds (width
// to 2^24, vocab below 2^24, head_dim to 512).
absl::Status CheckModelShape(const ModelShape& shape);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_SHAPES_H_
