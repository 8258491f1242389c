#ifndef ISOBIT_KERNELS_CUDA_GEMM_TIMING_H_
#define ISOBIT_KERNELS_CUDA_GEMM_TIMING_H_

// Times of GEMMs beside those of cuBLASLt. Everything runs on the current device.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "kernels/cuda/cold_weights.h"
#include "kernels/cuda/timed_graph.h"

namespace isobit::cuda {

// How many calls make a graph long enough to be timed, for weights of n x k and `rows` rows of x.
int TimedCalls(int64_t n, int64_t k, int64_t rows);

// One graph for each of the first `count` algorithms that cuBLASLt's heuristic offers, best guess
// first, named "cublaslt 0", "cublaslt 1" and so on: y[rows][n] = x[rows][k] w[n][k]^T in bf16,
// with the weights by rows. Empty without the library. x, y, workspace (kRivalWorkspaceBytes) and
// weights must outlive the graphs.
inline constexpr size_t kRivalWorkspaceBytes = size_t{32} << 20;
absl::StatusOr<std::vector<std::unique_ptr<TimedGraph>>> CaptureCublasLt(const ColdWeights& weights,
                                                                         int64_t rows, int count,
                                                                         int calls, const Bf16* x,
                                                                         Bf16* y, void* workspace,
                                                                         cudaStream_t stream);

// Of more than three leaves the first and the two fastest in turns of one run each.
absl::Status KeepFastest(std::vector<std::unique_ptr<TimedGraph>>& rivals, cudaStream_t stream);

// TimeCudaGemm of kernels/backends.h, on a device with this many multiprocessors, the current one.
absl::StatusOr<std::vector<GemmTime>> TimeGemm(const GemmShape& shape,
                                               std::span<const int64_t> rows, int multiprocessors);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_TIMING_H_
