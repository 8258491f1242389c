#include "kernels/cuda/qualify.h"

#include <cuda_runtime.h>

#include <cstdio>

#include "kernels/cuda/sm90/mma.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/scalar.h"

namespace isobit::cuda {
namespace {

constexpr int kChainRows = 16;  // of x, a warp
constexpr int kChainCols = 8;   // weight rows, a warp
constexpr int kChainWarps = 8;  // a block, side by side in weight rows

// Elements k and k + 1 of a row, zero past either end.
__device__ uint32_t LoadPair(const Bf16* m, int64_t rows, int64_t k, int64_t row, int64_t i) {
  if (row >= rows || i >= k) return 0;
  const Bf16* at = m + row * k + i;
  if (k % 2 == 0) return *reinterpret_cast<const uint32_t*>(at);
  const uint32_t second = i + 1 < k ? at[1].bits : 0;
  return at[0].bits | second << 16;
}

__global__ void ReferenceChainsKernel(const Bf16* x, const Bf16* w, int64_t rows, int64_t n,
                                      int64_t k, float* acc) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = int64_t{blockIdx.y} * kChainRows + lane / 4;
  const int64_t first_col = (int64_t{blockIdx.x} * kChainWarps + warp) * kChainCols;
  const int pair = lane % 4 * 2;
  float d[4] = {0, 0, 0, 0};
  for (int64_t step = 0; step < k; step += 16) {
    const int64_t i = step + pair;
    const uint32_t a[4] = {LoadPair(x, rows, k, row, i), LoadPair(x, rows, k, row + 8, i),
                           LoadPair(x, rows, k, row, i + 8), LoadPair(x, rows, k, row + 8, i + 8)};
    const uint32_t b[2] = {LoadPair(w, n, k, first_col + lane / 4, i),
                           LoadPair(w, n, k, first_col + lane / 4, i + 8)};
    sm90::MmaBf16(d, a, b);
  }
  for (int e = 0; e < 4; ++e) {
    const int64_t r = row + e / 2 * 8;
    const int64_t c = first_col + pair + e % 2;
    if (r < rows && c < n) acc[r * n + c] = d[e];
  }
}

__global__ void ReferenceEpilogueKernel(Gemm op, const float* acc, int64_t n, int64_t outputs) {
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= op.rows * outputs) return;
  const int64_t row = index / outputs;
  const int64_t col = index % outputs;
  const float* chains = acc + row * n;
  if (IsGate(op.epilogue)) {
    const Bf16 gate = RoundToBf16(chains[col]), up = RoundToBf16(chains[outputs + col]);
    op.out_bf16[index] =
        op.epilogue == Gemm::Epilogue::kSiluGate ? SiluGate(gate, up) : GeluGate(gate, up);
    return;
  }
  float y = chains[col];
  if (op.bias != nullptr) y = ieee::Add(y, op.bias[col]);
  if (op.scale != 1.0f) y = ieee::Mul(y, op.scale);
  if (op.epilogue == Gemm::Epilogue::kFp32) {
    op.out_fp32[index] = Canonical(y);
    return;
  }
  if (op.residual != nullptr) y = ieee::Add(y, ToFloat(op.residual[index]));
  op.out_bf16[index] = RoundToBf16(y);
}

template <typename T>
__global__ void CompareKernel(const T* expected, const T* actual, int64_t count,
                              BitDifference* difference) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    if (expected[i] == actual[i]) continue;
    atomicAdd(reinterpret_cast<unsigned long long*>(&difference->count), 1ull);
    atomicMin(reinterpret_cast<unsigned long long*>(&difference->first),
              static_cast<unsigned long long>(i));
  }
}

template <typename T>
cudaError_t Compare(const T* expected, const T* actual, int64_t count, BitDifference* difference,
                    cudaStream_t stream) {
  *difference = BitDifference{};
  BitDifference* on_device = nullptr;
  cudaError_t error = cudaMallocAsync(&on_device, sizeof(BitDifference), stream);
  if (error != cudaSuccess) return error;
  cudaMemcpyAsync(on_device, difference, sizeof(BitDifference), cudaMemcpyHostToDevice, stream);
  CompareKernel<<<1024, 256, 0, stream>>>(expected, actual, count, on_device);
  cudaMemcpyAsync(difference, on_device, sizeof(BitDifference), cudaMemcpyDeviceToHost, stream);
  cudaFreeAsync(on_device, stream);
  error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess || difference->count == 0) return error;
  T pair[2];
  cudaMemcpyAsync(&pair[0], expected + difference->first, sizeof(T), cudaMemcpyDeviceToHost,
                  stream);
  cudaMemcpyAsync(&pair[1], actual + difference->first, sizeof(T), cudaMemcpyDeviceToHost, stream);
  error = cudaStreamSynchronize(stream);
  difference->expected = pair[0];
  difference->actual = pair[1];
  return error;
}

}  // namespace

cudaError_t LaunchReferenceChains(const Bf16* x, const Bf16* w, int64_t rows, int64_t n, int64_t k,
                                  float* acc, cudaStream_t stream) {
  const int64_t block_cols = int64_t{kChainCols} * kChainWarps;
  const dim3 grid(static_cast<unsigned>((n + block_cols - 1) / block_cols),
                  static_cast<unsigned>((rows + kChainRows - 1) / kChainRows));
  ReferenceChainsKernel<<<grid, 32 * kChainWarps, 0, stream>>>(x, w, rows, n, k, acc);
  return cudaGetLastError();
}

cudaError_t LaunchReferenceEpilogue(const Gemm& op, const float* acc, int64_t n,
                                    cudaStream_t stream) {
  const int64_t outputs = IsGate(op.epilogue) ? n / 2 : n;
  const int64_t blocks = (op.rows * outputs + 255) / 256;
  ReferenceEpilogueKernel<<<static_cast<unsigned>(blocks), 256, 0, stream>>>(op, acc, n, outputs);
  return cudaGetLastError();
}

cudaError_t CompareBits(const void* expected, const void* actual, int64_t count, int element_bytes,
                        BitDifference* difference, cudaStream_t stream) {
  if (element_bytes == 2) {
    return Compare(static_cast<const uint16_t*>(expected), static_cast<const uint16_t*>(actual),
                   count, difference, stream);
  }
  return Compare(static_cast<const uint32_t*>(expected), static_cast<const uint32_t*>(actual),
                 count, difference, stream);
}

std::string Describe(const BitDifference& difference, int64_t count, int64_t cols) {
  if (difference.count == 0) return "";
  char text[160];
  std::snprintf(text, sizeof(text),
                "%llu of %lld differ, first at row %llu, column %llu: expected 0x%x, got 0x%x",
                static_cast<unsigned long long>(difference.count), static_cast<long long>(count),
                static_cast<unsigned long long>(difference.first / cols),
                static_cast<unsigned long long>(difference.first % cols), difference.expected,
                difference.actual);
  return text;
}

}  // namespace isobit::cuda
