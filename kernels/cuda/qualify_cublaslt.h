#ifndef ISOBIT_KERNELS_CUDA_QUALIFY_CUBLASLT_H_
#define ISOBIT_KERNELS_CUDA_QUALIFY_CUBLASLT_H_

// Algorithms of cuBLASLt as candidates and rivals. The library is looked for at run time; nothing
// links it. It reads row-major weights, so it can't serve a model whose weights are packed; it is
// here to be compared with, in speed and in bits.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/numerics/bf16.h"

namespace isobit::cuda {

// One algorithm that cuBLASLt's heuristic offers, best first.
struct CublasLtAlgorithm {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes = 0;
  // What decides whether it can be one ascending chain.
  int split_k = 1;
  uint32_t reduction_scheme = 0;

  bool SplitsK() const { return split_k > 1 || reduction_scheme != 0; }
};

// y[rows][n] = x[rows][k] w[n][k]^T, bf16 in and out, fp32 accumulation.
class CublasLtGemm {
 public:
  // Null, and why in `error`, if the library or the card is missing.
  static std::unique_ptr<CublasLtGemm> Create(int64_t rows, int64_t n, int64_t k,
                                              std::string* error);
  ~CublasLtGemm();
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  std::vector<CublasLtAlgorithm> Heuristic(int count) const;
  // workspace: kWorkspaceBytes of device memory.
  bool Launch(const CublasLtAlgorithm& algorithm, const Bf16* x, const Bf16* w, Bf16* y,
              void* workspace, cudaStream_t stream) const;

 private:
  CublasLtGemm() = default;

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
};

// "13.1.0", or empty if the library is missing.
std::string CublasLtVersion();

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_QUALIFY_CUBLASLT_H_
