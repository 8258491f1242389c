#ifndef ISOBIT_KERNELS_CUDA_QUALIFY_INPUTS_H_
#define ISOBIT_KERNELS_CUDA_QUALIFY_INPUTS_H_

// Inputs made to tell one order of additions from another, filled on the GPU: the same numbers for
// the same seed everywhere.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/numerics/bf16.h"

namespace isobit::cuda {

enum class InputKind {
  kNormal,      // bell-shaped around 0, deviation about 1
  kWide,        // magnitudes 2^-40 .. 2^40
  kCancelling,  // neighbours that nearly cancel, but for some large outliers
  kAnyFinite,   // any finite bf16: subnormals, zeros of both signs, near overflow
  kSubnormal,   // mostly subnormal, some large enough to lift a product to the normal range
  kSpecial,     // bell-shaped with some infinities, NaNs and zeros
  kOneHot,      // one element in sixteen is not zero, at a random place
};

inline constexpr InputKind kInputKinds[] = {
    InputKind::kNormal,    InputKind::kWide,    InputKind::kCancelling, InputKind::kAnyFinite,
    InputKind::kSubnormal, InputKind::kSpecial, InputKind::kOneHot};
const char* Name(InputKind kind);

// scale multiplies kNormal and kSpecial.
cudaError_t LaunchFill(InputKind kind, uint64_t seed, float scale, int64_t count, Bf16* to,
                       cudaStream_t stream);

// Fills all shared memory of all multiprocessors with NaN, so that a kernel that uses what it has
// not loaded shows it.
cudaError_t LaunchPoisonSharedMemory(cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_QUALIFY_INPUTS_H_
