#include <cuda_runtime.h>

#include "kernels/cuda/qualify_inputs.h"

namespace isobit::cuda {
namespace {

// SplitMix64's finaliser: a good hash of a counter.
__device__ uint64_t Hash(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

__device__ Bf16 Bits(uint32_t sign, uint32_t exponent, uint32_t fraction) {
  return {static_cast<uint16_t>(sign << 15 | exponent << 7 | fraction)};
}

__device__ Bf16 Normal(uint64_t random, float scale) {
  int sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<int>(random >> (16 * i) & 0xffff) - 0x8000;
  return RoundToBf16(static_cast<float>(sum) * (scale / 37837.0f));
}

__device__ Bf16 Special(uint64_t random, float scale) {
  switch (Hash(random) % 997) {
    case 0:
      return Bits(0, 0xff, 0);
    case 1:
      return Bits(1, 0xff, 0);
    case 2:
      return Bits(random & 1, 0xff, 1 + random % 127);
    case 3:
    case 4:
    case 5:
      return Bits(random & 1, 0, 0);
    default:
      return Normal(random, scale);
  }
}

__device__ Bf16 Make(InputKind kind, uint64_t seed, int64_t index, float scale) {
  const uint64_t random = Hash(seed * 0x100000001b3u + static_cast<uint64_t>(index));
  const auto sign = static_cast<uint32_t>(random >> 63);
  const auto fraction = static_cast<uint32_t>(random >> 32 & 0x7f);
  const auto choice = static_cast<uint32_t>(random & 0xffff);
  switch (kind) {
    case InputKind::kNormal:
      return Normal(random, scale);
    case InputKind::kWide:
      return Bits(sign, 127 - 40 + choice % 81, fraction);
    case InputKind::kCancelling: {
      // A pair (v, -v (1 + a bit)), with v the same for both; one pair in 64 is 2^12 larger.
      const uint64_t pair = Hash(seed * 0x100000001b3u + static_cast<uint64_t>(index / 2) * 7 + 1);
      const uint32_t large = pair % 64 == 0 ? 12 : 0;
      const auto base = static_cast<uint32_t>(pair >> 32 & 0x7e);
      return Bits(seed % 2 == 0 ? index & 1 : 0, 127 + large, base + (choice % 16 == 0));
    }
    case InputKind::kAnyFinite:
      return Bits(sign, choice % 255, fraction);
    case InputKind::kSubnormal:
      return Bits(sign, choice % 8 == 0 ? 100 + choice / 8 % 100 : 0, fraction);
    case InputKind::kSpecial:
      return Special(random, scale);
    case InputKind::kOneHot: {
      const uint64_t group = Hash(seed * 31 + static_cast<uint64_t>(index / 16));
      if (static_cast<uint64_t>(index % 16) != group % 16) return Bits(0, 0, 0);
      return Bits(sign, 127 - 8 + choice % 17, fraction);
    }
  }
  return {};
}

__global__ void FillKernel(InputKind kind, uint64_t seed, float scale, int64_t count, Bf16* to) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    to[i] = Make(kind, seed, i, scale);
  }
}

constexpr int kSharedBytes = 227 * 1024;

__global__ void PoisonSharedMemoryKernel() {
  extern __shared__ uint32_t words[];
  for (int i = static_cast<int>(threadIdx.x); i < kSharedBytes / 4; i += 256) {
    reinterpret_cast<volatile uint32_t*>(words)[i] = 0x7fff7fffu;
  }
}

}  // namespace

const char* Name(InputKind kind) {
  switch (kind) {
    case InputKind::kNormal:
      return "normal";
    case InputKind::kWide:
      return "wide";
    case InputKind::kCancelling:
      return "cancelling";
    case InputKind::kAnyFinite:
      return "any finite";
    case InputKind::kSubnormal:
      return "subnormal";
    case InputKind::kSpecial:
      return "special";
    case InputKind::kOneHot:
      return "one-hot";
  }
  return "";
}

cudaError_t LaunchFill(InputKind kind, uint64_t seed, float scale, int64_t count, Bf16* to,
                       cudaStream_t stream) {
  FillKernel<<<2048, 256, 0, stream>>>(kind, seed, scale, count, to);
  return cudaGetLastError();
}

cudaError_t LaunchPoisonSharedMemory(cudaStream_t stream) {
  const cudaError_t error = cudaFuncSetAttribute(
      PoisonSharedMemoryKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  // One CTA fills a multiprocessor; several rounds reach all of them.
  PoisonSharedMemoryKernel<<<1024, 256, kSharedBytes, stream>>>();
  return cudaGetLastError();
}

}  // namespace isobit::cuda
