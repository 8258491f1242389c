#include "kernels/cuda/device_check.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/strings/str_format.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/cuda/sm90/exp2.h"
#include "kernels/cuda/sm90/mma.h"
#include "kernels/numerics/dot16.h"
#include "kernels/numerics/grid_exp.h"
#include "kernels/numerics/philox.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = 256;

struct CheckResult {
  unsigned long long exp2_differences, dot16_differences;
  unsigned long long first_exp2;   // grid point whose result differs
  unsigned long long first_dot16;  // step whose result differs
};

// ---- Exponential

constexpr int kGridFrom = -128 * kGridSize;
constexpr int kGridTo = 128 * kGridSize;

__global__ void CheckExp2Kernel(const GridExpTable* table, CheckResult* result) {
  const int point = kGridFrom + static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (point > kGridTo) return;
  const float x = ieee::Mul(static_cast<float>(point), 1.0f / kGridSize);
  const uint32_t actual = sm90::RoundToBf16Pair(sm90::FlushingExp2(x), 0.0f) & 0xffffu;
  // GridExp2 as it is on the host.
  uint32_t expected = 0;
  if (x >= 128.0f) {
    expected = 0x7f80;
  } else if (x >= kGridExpMin) {
    const int exponent = point >> kGridBits;
    expected = ((exponent + 127) << 7) + table->fraction[point & (kGridSize - 1)];
  }
  if (actual == expected) return;
  atomicAdd(&result->exp2_differences, 1ull);
  atomicMin(&result->first_exp2, static_cast<unsigned long long>(point - kGridFrom));
}

// ---- Tensor core

constexpr int kDotWarps = 4096;
constexpr int kRows = 16, kCols = 8;

// Random inputs, made where they are used. A warp's exponents are spread by 0 to 15 bits or, in
// every fourth warp, over all there are, infinities and NaN among them.
struct RandomSteps {
  uint32_t warp;

  __device__ uint32_t Bits(uint32_t stream, uint32_t index) const {
    return Philox4x32({{index, warp, stream, 0}}, {{0x1507b17u, 0}}).word[0];
  }
  __device__ Bf16 Element(uint32_t stream, uint32_t index) const {
    const uint32_t bits = Bits(stream, index);
    if (warp % 4 == 0) return {static_cast<uint16_t>(bits)};
    const uint32_t spread = warp / 4 % 16;
    const uint32_t exponent = 127 - spread + (bits >> 16) % (2 * spread + 1);
    return {static_cast<uint16_t>((bits & 0x807fu) | exponent << 7)};
  }
  __device__ Bf16 A(int row, int k) const { return Element(0, row * kDotTerms + k); }
  __device__ Bf16 B(int col, int k) const { return Element(1, col * kDotTerms + k); }
  __device__ float C(int row, int col) const {
    const uint32_t bits = Bits(2, row * kCols + col);
    if (warp % 4 == 0) return BitsFloat(bits);
    return BitsFloat((bits & 0x807fffffu) | (120 + (bits >> 23) % 16) << 23);
  }
};

__device__ uint32_t ElementPair(Bf16 low, Bf16 high) {
  return low.bits | uint32_t{high.bits} << 16;
}

// A warp does one 16 x 8 product on the tensor core and by Dot16.
__global__ void CheckDot16Kernel(CheckResult* result) {
  const uint32_t warp = (blockIdx.x * kThreads + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4, q = lane % 4 * 2;
  const RandomSteps steps = {warp};
  uint32_t a[4], b[2];
  for (int i = 0; i < 4; ++i) {
    const int row = g + i % 2 * 8, k = q + i / 2 * 8;
    a[i] = ElementPair(steps.A(row, k), steps.A(row, k + 1));
  }
  for (int i = 0; i < 2; ++i) {
    b[i] = ElementPair(steps.B(g, q + 8 * i), steps.B(g, q + 8 * i + 1));
  }
  float d[4];
  for (int i = 0; i < 4; ++i) d[i] = steps.C(g + i / 2 * 8, q + i % 2);
  sm90::MmaBf16(d, a, b);
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, col = q + i % 2;
    Bf16 x[kDotTerms], y[kDotTerms];
    for (int k = 0; k < kDotTerms; ++k) {
      x[k] = steps.A(row, k);
      y[k] = steps.B(col, k);
    }
    if (FloatBits(Dot16(steps.C(row, col), x, y)) == FloatBits(d[i])) continue;
    atomicAdd(&result->dot16_differences, 1ull);
    atomicMin(&result->first_dot16, (uint64_t{warp} * kRows + static_cast<uint64_t>(row)) * kCols +
                                        static_cast<uint64_t>(col));
  }
}

absl::Status Describe(const CheckResult& result) {
  if (result.exp2_differences != 0) {
    const double x =
        static_cast<double>(kGridFrom + static_cast<int64_t>(result.first_exp2)) / kGridSize;
    return absl::FailedPreconditionError(absl::StrFormat(
        "this GPU's exponential is not the contract's at %u of %d points, first at %.17g",
        result.exp2_differences, kGridTo - kGridFrom + 1, x));
  }
  if (result.dot16_differences != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "this GPU's tensor core is not the contract's dot16 in %u of %d steps, first in step %u",
        result.dot16_differences, kDotWarps * kRows * kCols, result.first_dot16));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDeviceArithmetic(cudaStream_t stream) {
  absl::StatusOr<DeviceArray<GridExpTable>> table =
      AllocateDeviceArray<GridExpTable>(1, "checking the device");
  if (!table.ok()) return table.status();
  absl::StatusOr<DeviceArray<CheckResult>> on_device =
      AllocateDeviceArray<CheckResult>(1, "checking the device");
  if (!on_device.ok()) return on_device.status();
  const GridExpTable host_table = MakeGridExpTable();
  CheckResult result = {0, 0, ~0ull, ~0ull};
  cudaError_t error = cudaMemcpyAsync(table->get(), &host_table, sizeof(GridExpTable),
                                      cudaMemcpyHostToDevice, stream);
  if (error == cudaSuccess) {
    error =
        cudaMemcpyAsync(on_device->get(), &result, sizeof(result), cudaMemcpyHostToDevice, stream);
  }
  if (error == cudaSuccess) {
    constexpr int kPoints = kGridTo - kGridFrom + 1;
    CheckExp2Kernel<<<(kPoints + kThreads - 1) / kThreads, kThreads, 0, stream>>>(table->get(),
                                                                                  on_device->get());
    CheckDot16Kernel<<<kDotWarps * 32 / kThreads, kThreads, 0, stream>>>(on_device->get());
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    error =
        cudaMemcpyAsync(&result, on_device->get(), sizeof(result), cudaMemcpyDeviceToHost, stream);
  }
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess) return FromCuda(error, "checking the device's arithmetic");
  return Describe(result);
}

}  // namespace isobit::cuda
