// In place of gemm_rival.cc where cuBLASLt's header was missing.

#include "kernels/cuda/gemm_timing.h"

namespace isobit::cuda {

absl::StatusOr<std::vector<std::unique_ptr<TimedGraph>>> CaptureCublasLt(const ColdWeights&,
                                                                         int64_t, int, int,
                                                                         const Bf16*, Bf16*, void*,
                                                                         cudaStream_t) {
  return std::vector<std::unique_ptr<TimedGraph>>();
}

}  // namespace isobit::cuda
