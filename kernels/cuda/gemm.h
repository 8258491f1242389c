#ifndef ISOBIT_KERNELS_CUDA_GEMM_H_
#define ISOBIT_KERNELS_CUDA_GEMM_H_

// The linear layer on Hopper: Gemm of kernels/ops.h with weights in PackedLayout. Bits are those of
// contract 2 (and 5 for SiluGate) for every plan.

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/kv_cache.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/ops.h"

namespace isobit::cuda {

// Weights in device memory.
struct PackedMatrix {
  PackedLayout layout;
  const void* data = nullptr;  // layout.Bytes(), aligned to 128
};

struct GemmLaunch {
  // Starts while the kernel before it in the stream still runs (programmatic dependent launch):
  // weights are loaded at once, x and everything else only after that kernel has ended. Needs
  // weights that no earlier kernel of the stream is still writing.
  bool early_start = true;
  // With early_start: bytes of weights a CTA asks L2 for, past what its ring holds, while it waits.
  int prefetch_bytes = 8192;
};

// Launches op with this plan; op.weight is not looked at, `weight` takes its place. x must be
// aligned to 16 bytes and k a multiple of 8. Returns the launch's error; never waits.
cudaError_t LaunchGemm(const Gemm& op, const PackedMatrix& weight, const GemmPlan& plan,
                       const GemmLaunch& launch, cudaStream_t stream);

// Launches op, whose weight is laid out by heads, with this plan; `cache` is op.rope.cache. As
// LaunchGemm; angles and q must be aligned to 16 bytes too.
cudaError_t LaunchQkvProjection(const QkvProjection& op, const PackedMatrix& weight,
                                const CudaKvCache& cache, const GemmPlan& plan,
                                const GemmLaunch& launch, cudaStream_t stream);

// What they ask of k.
inline constexpr int kGemmColsMultiple = 8;

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_H_
