#ifndef ISOBIT_KERNELS_CUDA_QUALIFY_H_
#define ISOBIT_KERNELS_CUDA_QUALIFY_H_

// What a GEMM kernel is held against on the GPU: a kernel so plain that it can be read as the
// definition, one mma.sync chain an output. Tests hold it in turn against Dot16 on the host.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "kernels/numerics/bf16.h"
#include "kernels/ops.h"

namespace isobit::cuda {

// acc[rows][n] = chains of contract 2 of x[rows][k] and w[n][k], both row-major, any sizes.
cudaError_t LaunchReferenceChains(const Bf16* x, const Bf16* w, int64_t rows, int64_t n, int64_t k,
                                  float* acc, cudaStream_t stream);

// The epilogue of op, but for a soft cap, on finished chains acc[op.rows][n]. n is the number of
// weight rows.
cudaError_t LaunchReferenceEpilogue(const Gemm& op, const float* acc, int64_t n,
                                    cudaStream_t stream);

// How two arrays differ, bit for bit.
struct BitDifference {
  uint64_t count = 0;
  uint64_t first = ~uint64_t{0};  // index of the first element that differs
  uint32_t expected = 0;          // its bits
  uint32_t actual = 0;
};

// Compares `count` elements of element_bytes (2 or 4) in device memory. Waits for the stream.
cudaError_t CompareBits(const void* expected, const void* actual, int64_t count, int element_bytes,
                        BitDifference* difference, cudaStream_t stream);

// "17 of 1000 differ, first at row 3, column 5: expected 0x3f80, got 0x3f81"; empty if none does.
std::string Describe(const BitDifference& difference, int64_t count, int64_t cols);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_QUALIFY_H_
