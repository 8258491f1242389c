#ifndef ISOBIT_TESTS_KERNELS_NUMERICS_DEVICE_TENSOR_CORE_H_
#define ISOBIT_TESTS_KERNELS_NUMERICS_DEVICE_TENSOR_CORE_H_

// Dot16 against the tensor core itself, on inputs made on the GPU: a billion steps a second.

#include <cstdint>

#include "kernels/numerics/dot16.h"

namespace isobit {

struct TensorCoreReport {
  unsigned long long compared;
  unsigned long long different;
  // What the results were, so that a test can see that every rule was reached.
  unsigned long long zeros, subnormals, infinities, nans;
  // The first step that was different, if any.
  Bf16 a[kDotTerms], b[kDotTerms];
  float c, expected, got;
};

// Compares about `millions` million steps of mma.sync m16n8k16 in bf16 with Dot16: narrow and wide
// exponents, products below and above fp32's range, near cancellation, sparse inputs, infinities
// and NaN. The inputs depend on `seed` only.
TensorCoreReport CompareWithTensorCore(uint64_t seed, int millions);

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_NUMERICS_DEVICE_TENSOR_CORE_H_
