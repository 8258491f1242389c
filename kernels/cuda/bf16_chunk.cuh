#ifndef ISOBIT_KERNELS_CUDA_BF16_CHUNK_CUH_
#define ISOBIT_KERNELS_CUDA_BF16_CHUNK_CUH_

// Eight bf16, 16 bytes: what a thread of a memory-bound kernel moves at a time.

#include <cstdint>

#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/bf16.h"

namespace isobit::cuda {

struct Bf16Chunk {
  static constexpr int kElements = 8;
  uint32_t pair[4];  // element 2i in the low half of pair i

  __device__ float Element(int i) const {
    return BitsFloat(i % 2 == 0 ? pair[i / 2] << 16 : pair[i / 2] & 0xffff0000u);
  }
};

__device__ inline Bf16Chunk LoadChunk(const Bf16* from) {
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  return {{v.x, v.y, v.z, v.w}};
}

__device__ inline void StoreChunk(const Bf16Chunk& chunk, void* to) {
  *reinterpret_cast<uint4*>(to) = uint4{chunk.pair[0], chunk.pair[1], chunk.pair[2], chunk.pair[3]};
}

// RmsNormElement (contract 3) of all elements.
__device__ inline Bf16Chunk RmsNormChunk(const Bf16Chunk& x, float scale, const Bf16Chunk& weight) {
  Bf16Chunk y;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t normalised = sm90::RoundToBf16Pair(ieee::Mul(x.Element(2 * i), scale),
                                                      ieee::Mul(x.Element(2 * i + 1), scale));
    const Bf16Chunk n = {{normalised, 0, 0, 0}};
    y.pair[i] = sm90::RoundToBf16Pair(ieee::Mul(n.Element(0), weight.Element(2 * i)),
                                      ieee::Mul(n.Element(1), weight.Element(2 * i + 1)));
  }
  return y;
}

// lane + the squares of the elements in ascending order: what one virtual lane does with its run.
__device__ inline float AddSquares(const Bf16Chunk& x, float lane) {
#pragma unroll
  for (int i = 0; i < Bf16Chunk::kElements; ++i) {
    lane = ieee::Fma(x.Element(i), x.Element(i), lane);
  }
  return lane;
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_BF16_CHUNK_CUH_
