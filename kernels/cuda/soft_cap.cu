// Soft caps of logits. Beside reading the weights that made them, a second pass over logits costs
// little, and the GEMM's epilogue stays small.

#include "kernels/cuda/soft_cap.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/numerics/scalar.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxCtas = 1024;

__global__ void SoftCapKernel(float* values, int64_t count, float cap) {
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * kThreads) {
    values[i] = SoftCap(values[i], cap);
  }
}

}  // namespace

cudaError_t LaunchSoftCap(float* values, int64_t count, float cap, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const int64_t ctas = std::min((count + kThreads - 1) / kThreads, kMaxCtas);
  return Launch(SoftCapKernel, {.grid = dim3(static_cast<unsigned>(ctas)), .threads = kThreads},
                stream, values, count, cap);
}

}  // namespace isobit::cuda
