#ifndef ISOBIT_INVARIANCE_ORDER_CUBLASLT_SUM_H_
#define ISOBIT_INVARIANCE_ORDER_CUBLASLT_SUM_H_

// The sum inside one algorithm of cuBLASLt, as order revealing sees it. Only in builds with CUDA.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "invariance/order/reveal.h"
#include "kernels/cuda/qualify_cublaslt.h"

namespace isobit {

// y[rows][n] = x[rows][k] w[n][k]^T with all weights 1; every row of x is a probe, and every column
// of y must show the same. `gemm` was made for these sizes and must outlive the sum.
// ResourceExhausted if there is no memory.
absl::StatusOr<std::unique_ptr<CancellingSum>> MakeCublasLtSum(
    const cuda::CublasLtGemm& gemm, const cuda::CublasLtAlgorithm& algorithm, int64_t rows,
    int64_t n, int64_t k);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_ORDER_CUBLASLT_SUM_H_
