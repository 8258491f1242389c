#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_STATE_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_STATE_CUH_

// The states of splits (contract 4) as the computing warps of the split kernel have them. A lane
// has two of a tile's 16 rows, number lane / 4 and the one 8 further on (half 0 and 1), and of them
// four columns of each pair of n8 tiles that is its warp's.

#include "kernels/cuda/attention_params.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

// The rows of a lane.
struct LaneRows {
  int count = 0;          // of the tile
  KeyRange keys[2] = {};  // that the rows see; of rows past the tile's last, what that sees

  LaneRows() = default;
  __device__ LaneRows(const AttentionTile& tile, const Divisor& group, int window)
      : count(tile.rows) {
    for (int half = 0; half < 2; ++half) {
      keys[half] = tile.KeysOf(min(Index(half), tile.rows - 1), group, window);
    }
  }
  // In the tile.
  static __device__ int Index(int half) {
    return static_cast<int>(threadIdx.x) % 32 / 4 + 8 * half;
  }
  __device__ bool Has(int half) const { return Index(half) < count; }
  __device__ bool See(int half, int split) const {
    return keys[half].first / kSplitKeys <= split && split <= keys[half].last / kSplitKeys;
  }
};

// Of one split. All columns of l are equal, as they come from a product with ones.
template <class Config>
struct SplitState {
  float bucket[2], l[4];
  float o[Config::kOwnPairs][2][4];

  __device__ void Fill(float value) {
    bucket[0] = bucket[1] = 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) l[e] = value;
#pragma unroll
    for (int i = 0; i < Config::kOwnPairs * 8; ++i) o[i / 8][i / 4 % 2][i % 4] = value;
  }
  // Raises a row's bucket.
  __device__ void Raise(int half, float higher) {
    const int steps = BucketSteps(higher, bucket[half]);
    bucket[half] = higher;
#pragma unroll 1
    for (int step = 0; step < min(steps, 5); ++step) {
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        l[e] = ieee::Mul(l[e], 0x1p-64f);
#pragma unroll
        for (int i = 0; i < Config::kOwnPairs; ++i) {
          o[i][0][e] = ieee::Mul(o[i][0][e], 0x1p-64f);
          o[i][1][e] = ieee::Mul(o[i][1][e], 0x1p-64f);
        }
      }
    }
  }
};

// Of splits that have been merged from left to right.
template <class Config>
struct MergedState : SplitState<Config> {
  using State = SplitState<Config>;
  bool empty[2];  // no split with a key that the row sees

  // To be merged into: -0 changes nothing when it is added.
  __device__ void Clear() {
    State::Fill(-0.0f);
    empty[0] = empty[1] = true;
  }
  __device__ void Take(const State& split) {
    static_cast<State&>(*this) = split;
    empty[0] = empty[1] = false;
  }
  // MergeSplit, for one row that sees keys of the split.
  __device__ void Add(int half, State& split) {
    const bool add = !empty[half];
    if (__builtin_expect(add && this->bucket[half] < split.bucket[half], 0)) {
      this->Raise(half, split.bucket[half]);
    } else if (__builtin_expect(add && split.bucket[half] < this->bucket[half], 0)) {
      split.Raise(half, this->bucket[half]);
    }
    this->bucket[half] = split.bucket[half];
    empty[half] = false;
#pragma unroll
    for (int e = 2 * half; e < 2 * half + 2; ++e) {
      this->l[e] = add ? ieee::Add(this->l[e], split.l[e]) : split.l[e];
#pragma unroll
      for (int i = 0; i < 2 * Config::kOwnPairs; ++i) {
        float& merged = this->o[i / 2][i % 2][e];
        merged = add ? ieee::Add(merged, split.o[i / 2][i % 2][e]) : split.o[i / 2][i % 2][e];
      }
    }
  }
  // The same for all rows, where all buckets are 0, empty ones too, and rows that see no key of the
  // split have -0 in it.
  __device__ void AddPlain(const State& split) {
#pragma unroll
    for (int e = 0; e < 4; ++e) this->l[e] = ieee::Add(this->l[e], split.l[e]);
#pragma unroll
    for (int i = 0; i < Config::kOwnPairs * 8; ++i) {
      float& merged = this->o[i / 8][i / 4 % 2][i % 4];
      merged = ieee::Add(merged, split.o[i / 8][i / 4 % 2][i % 4]);
    }
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_STATE_CUH_
