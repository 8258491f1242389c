// The ceiling of everything that is bound by memory: what a kernel gets that only reads.

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/backends.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_memory.h"

namespace isobit {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kCtasPerMultiprocessor = 8;
constexpr int kLoadsAhead = 8;              // 16 bytes each, in flight before the first is used
constexpr size_t kBytes = size_t{2} << 30;  // many times L2
constexpr int kRounds = 8;

// The sum is written only if it is a value that it never has: so that the reads are needed.
__global__ void __launch_bounds__(kThreads)
    ReadKernel(const uint4* data, size_t count, uint32_t* sink) {
  const size_t stride = size_t{gridDim.x} * kThreads;
  uint32_t sum = 0;
  size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  for (; i + (kLoadsAhead - 1) * stride < count; i += kLoadsAhead * stride) {
    uint4 loaded[kLoadsAhead];
#pragma unroll
    for (int k = 0; k < kLoadsAhead; ++k) loaded[k] = __ldcs(data + i + k * stride);
#pragma unroll
    for (const uint4& v : loaded) sum |= v.x | v.y | v.z | v.w;
  }
  if (sum == 1) *sink = sum;
}

struct Events {
  Events() {
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
  }
  ~Events() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
  }
  cudaEvent_t begin = nullptr, end = nullptr;
};

absl::StatusOr<double> Measure(int multiprocessors) {
  auto data = AllocateDeviceArray<uint8_t>(kBytes + sizeof(uint32_t), "measuring bandwidth");
  if (!data.ok()) return data.status();
  cudaError_t error = cudaMemset(data->get(), 0, kBytes + sizeof(uint32_t));
  if (error != cudaSuccess) return FromCuda(error, "measuring bandwidth");
  const Events events;
  const auto* words = reinterpret_cast<const uint4*>(data->get());
  auto* sink = reinterpret_cast<uint32_t*>(data->get() + kBytes);
  float best = 0;
  for (int round = 0; round < kRounds; ++round) {
    cudaEventRecord(events.begin);
    ReadKernel<<<multiprocessors * kCtasPerMultiprocessor, kThreads>>>(
        words, kBytes / sizeof(uint4), sink);
    cudaEventRecord(events.end);
    float ms = 0;
    error = cudaEventSynchronize(events.end);
    if (error == cudaSuccess) error = cudaEventElapsedTime(&ms, events.begin, events.end);
    if (error != cudaSuccess) return FromCuda(error, "measuring bandwidth");
    best = round == 0 ? ms : std::min(best, ms);
  }
  return static_cast<double>(kBytes) / (1e-3 * static_cast<double>(best));
}

}  // namespace
}  // namespace cuda

absl::StatusOr<double> MeasureCudaReadBandwidth(const CudaOptions& options) {
  int multiprocessors = 0;
  cudaError_t error = cudaSetDevice(options.device);
  if (error == cudaSuccess) {
    error =
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, options.device);
  }
  if (error != cudaSuccess) return cuda::FromCuda(error, "measuring bandwidth");
  return cuda::Measure(multiprocessors);
}

}  // namespace isobit
