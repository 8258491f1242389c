#include "tests/kernels/numerics/device_tensor_core.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/cuda/sm90/mma.h"
#include "kernels/numerics/philox.h"

namespace isobit {
namespace {

constexpr int kRows = 16, kColumns = 8;  // of one mma.sync
constexpr int kWarps = 4;
constexpr int kTilesPerWarp = 512;

void Check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
  std::abort();
}

// Random words, each from its own counter.
class Words {
 public:
  __device__ Words(uint64_t seed, uint32_t stream, uint32_t tile)
      : key_{{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}},
        stream_(stream),
        tile_(tile) {}
  __device__ uint32_t Next() { return Philox4x32({{next_++, stream_, tile_, 0}}, key_).word[0]; }
  // In [0, n).
  __device__ int Below(int n) { return static_cast<int>(uint64_t{Next()} * n >> 32); }
  // In [low, high].
  __device__ int Between(int low, int high) { return low + Below(high - low + 1); }

 private:
  PhiloxKey key_;
  uint32_t stream_, tile_, next_ = 0;
};

// How the inputs of a tile are made; the same for all its lanes.
struct TilePlan {
  int center_a, center_b;  // biased exponents
  int spread;
  int zero_in;       // one element in this many is 0; 0: none
  bool non_finite;   // infinities and NaN among the elements
  int cancel_pairs;  // neighbouring terms that cancel but for the last bits
  int center_c;      // biased exponent of C
  int c_kind;        // 0: zero, 1: subnormal, 2: any finite, else near center_c
};

__device__ TilePlan MakePlan(Words& words) {
  TilePlan plan{};
  plan.spread = words.Between(0, 12);
  plan.cancel_pairs = words.Below(3) == 0 ? 0 : words.Between(0, 8);
  switch (words.Below(6)) {
    case 0:  // like activations and weights
      plan.center_a = words.Between(120, 134);
      plan.center_b = words.Between(120, 134);
      break;
    case 1:  // anything finite
      plan.center_a = plan.center_b = 127;
      plan.spread = 127;
      break;
    case 2: {  // products around the smallest fp32: exponents sum to -170 .. -118
      const int sum = words.Between(254 - 170, 254 - 118);
      plan.center_a = words.Between(0, sum);
      plan.center_b = sum - plan.center_a;
      plan.spread = words.Between(0, 4);
      break;
    }
    case 3: {  // products around and above the largest
      const int sum = words.Between(254 + 110, 254 + 254);
      plan.center_a = words.Between(sum - 254, 254);
      plan.center_b = sum - plan.center_a;
      break;
    }
    case 4:  // mostly zeros
      plan.center_a = words.Between(0, 254);
      plan.center_b = words.Between(0, 254);
      plan.zero_in = 2;
      break;
    default:
      plan.center_a = words.Between(60, 200);
      plan.center_b = words.Between(60, 200);
      plan.non_finite = true;
  }
  plan.center_c = plan.center_a + plan.center_b - 127;
  plan.c_kind = words.Below(6);
  return plan;
}

__device__ uint16_t MakeElement(const TilePlan& plan, int center, Words& words) {
  const uint32_t word = words.Next();
  const uint16_t sign_and_fraction = word & 0x807f;
  if (plan.zero_in > 0 && words.Below(plan.zero_in) == 0) return word & 0x8000;
  if (plan.non_finite && words.Below(48) == 0) {
    return 0x7f80 | (words.Below(4) == 0 ? sign_and_fraction : word & 0x8000);
  }
  const int exponent = min(254, max(0, center + words.Between(-plan.spread, plan.spread)));
  return static_cast<uint16_t>(sign_and_fraction | exponent << 7);
}

__device__ float MakeC(const TilePlan& plan, Words& words) {
  const uint32_t word = words.Next();
  const uint32_t sign_and_fraction = word & 0x807fffffu;
  switch (plan.c_kind) {
    case 0:
      return BitsFloat(word & 0x80000000u);
    case 1:
      return BitsFloat((word & 0x80000000u) | (word & 0x7fffffu) >> words.Below(24));
    case 2:
      return BitsFloat(sign_and_fraction | static_cast<uint32_t>(words.Below(255)) << 23);
  }
  if (plan.non_finite && words.Below(16) == 0) return BitsFloat((word & 0x80000000u) | 0x7f800000u);
  const int exponent = min(254, max(0, plan.center_c + words.Between(-28, 4)));
  return BitsFloat(sign_and_fraction | static_cast<uint32_t>(exponent) << 23);
}

struct Tile {
  Bf16 a[kRows][kDotTerms];
  Bf16 b[kColumns][kDotTerms];
};

// The whole warp fills the tile.
__device__ void FillTile(const TilePlan& plan, int lane, Words& words, Tile& tile) {
  for (int i = lane; i < (kRows + kColumns) * kDotTerms; i += 32) {
    const int row = i / kDotTerms, k = i % kDotTerms;
    if (row < kRows) {
      tile.a[row][k].bits = MakeElement(plan, plan.center_a, words);
    } else {
      tile.b[row - kRows][k].bits = MakeElement(plan, plan.center_b, words);
    }
  }
  __syncwarp();
  // Terms 2j and 2j + 1 get opposite products in every row and column, but for flipped last bits.
  for (int i = lane; i < (kRows + kColumns) * plan.cancel_pairs; i += 32) {
    const int row = i / plan.cancel_pairs, k = 2 * (i % plan.cancel_pairs);
    if (row < kRows) {
      tile.a[row][k + 1].bits = tile.a[row][k].bits ^ 0x8000;
    } else {
      const uint16_t flip = words.Below(2) == 0 ? 0 : 1 << words.Below(3);
      tile.b[row - kRows][k + 1].bits = tile.b[row - kRows][k].bits ^ flip;
    }
  }
  __syncwarp();
}

__device__ uint32_t PairAt(const Bf16* row, int k) {
  return uint32_t{row[k].bits} | uint32_t{row[k + 1].bits} << 16;
}

__device__ void Count(float got, TensorCoreReport& counts) {
  const uint32_t magnitude = FloatBits(got) & 0x7fffffffu;
  ++counts.compared;
  if (magnitude == 0) {
    ++counts.zeros;
  } else if (magnitude < 0x800000u) {
    ++counts.subnormals;
  } else if (magnitude == 0x7f800000u) {
    ++counts.infinities;
  } else if (magnitude > 0x7f800000u) {
    ++counts.nans;
  }
}

__global__ void Compare(uint64_t seed, TensorCoreReport* report) {
  __shared__ Tile tiles[kWarps];
  const int lane = threadIdx.x % 32;
  Tile& tile = tiles[threadIdx.x / 32];
  const uint32_t warp = blockIdx.x * kWarps + threadIdx.x / 32;
  TensorCoreReport counts{};
  for (uint32_t t = 0; t < kTilesPerWarp; ++t) {
    Words tile_words(seed, warp, 2 * t);
    const TilePlan plan = MakePlan(tile_words);
    Words words(seed, warp * 32 + lane, 2 * t + 1);
    FillTile(plan, lane, words, tile);

    const int g = lane / 4, q = lane % 4;
    const uint32_t a[4] = {PairAt(tile.a[g], 2 * q), PairAt(tile.a[g + 8], 2 * q),
                           PairAt(tile.a[g], 2 * q + 8), PairAt(tile.a[g + 8], 2 * q + 8)};
    const uint32_t b[2] = {PairAt(tile.b[g], 2 * q), PairAt(tile.b[g], 2 * q + 8)};
    float c[4], d[4];
    for (int i = 0; i < 4; ++i) c[i] = d[i] = MakeC(plan, words);
    sm90::MmaBf16(d, a, b);
    for (int i = 0; i < 4; ++i) {
      const Bf16* row = tile.a[g + i / 2 * 8];
      const Bf16* column = tile.b[2 * q + i % 2];
      const float expected = Dot16(c[i], row, column);
      Count(d[i], counts);
      if (FloatBits(expected) == FloatBits(d[i])) continue;
      if (atomicAdd(&report->different, 1ull) != 0) continue;
      for (int k = 0; k < kDotTerms; ++k) {
        report->a[k] = row[k];
        report->b[k] = column[k];
      }
      report->c = c[i];
      report->expected = expected;
      report->got = d[i];
    }
    __syncwarp();
  }
  atomicAdd(&report->compared, counts.compared);
  atomicAdd(&report->zeros, counts.zeros);
  atomicAdd(&report->subnormals, counts.subnormals);
  atomicAdd(&report->infinities, counts.infinities);
  atomicAdd(&report->nans, counts.nans);
}

}  // namespace

TensorCoreReport CompareWithTensorCore(uint64_t seed, int millions) {
  constexpr int64_t kStepsPerBlock = int64_t{kWarps} * kTilesPerWarp * kRows * kColumns;
  const auto blocks =
      static_cast<unsigned>((int64_t{millions} * 1000000 + kStepsPerBlock - 1) / kStepsPerBlock);
  TensorCoreReport* report = nullptr;
  Check(cudaMalloc(&report, sizeof(*report)));
  Check(cudaMemset(report, 0, sizeof(*report)));
  Compare<<<blocks, kWarps * 32>>>(seed, report);
  Check(cudaGetLastError());
  TensorCoreReport result;
  Check(cudaMemcpy(&result, report, sizeof(result), cudaMemcpyDeviceToHost));
  Check(cudaFree(report));
  return result;
}

}  // namespace isobit
