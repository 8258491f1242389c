#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SCORES_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SCORES_CUH_

// Scores and probabilities: a computing warp of the split kernel has 16 keys of each step.

#include "kernels/cuda/attention_split_warp.cuh"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/cuda/sm90/exp2.h"
#include "kernels/cuda/sm90/load_matrix.h"
#include "kernels/cuda/sm90/mma.h"
#include "kernels/numerics/attention.h"
#include "kernels/numerics/grid_exp.h"

namespace isobit::cuda {

// A warp that makes scores and probabilities.
template <class Config>
class SplitScorer : protected SplitWarp<Config> {
  using Base = SplitWarp<Config>;

 public:
  using Base::Base;

 protected:
  using Base::AllSee, Base::Query, Base::Row;
  using Base::lane_, Base::p_, Base::quad_lane_, Base::rows_, Base::shared_, Base::warp_;

  using Scores = float[2][4];  // two n8 tiles of 16 rows

  // s = queries times this warp's 16 keys of the chunk in shared memory at `keys`.
  __device__ void ComputeScores(uint32_t keys, Scores& s) const {
    // Fragments are loaded some ahead of their use.
    constexpr int kAhead = Config::kPairs < 8 ? Config::kPairs : 8;
#pragma unroll
    for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = 0.0f;
    const ChunkPairs chunks = OwnKeys(keys);
#pragma unroll
    for (int begin = 0; begin < Config::kPairs; begin += kAhead) {
      uint32_t k[kAhead][4];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sm90::LoadMatrices(k[i], chunks.At(begin + i));
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        uint32_t q[4];
        Query(begin + i, q);
        const uint32_t first[2] = {k[i][0], k[i][1]}, second[2] = {k[i][2], k[i][3]};
        sm90::MmaBf16(s[0], q, first);
        sm90::MmaBf16(s[1], q, second);
      }
    }
    if constexpr (Config::kCapsScores) {
#pragma unroll
      for (int i = 0; i < 8; ++i) s[i / 4][i % 4] = CapScore(s[i / 4][i % 4], p_.scale);
    }
  }

  // Makes scores of keys that their rows don't see -infinity. key: the warp's first.
  __device__ void HideKeys(int key, Scores& s) const {
    if (AllSee(key, key + 16)) return;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int at = key + i / 4 * 8 + 2 * quad_lane_ + i % 2;
      if (!rows_.keys[i / 2 % 2].Meets(at, at + 1)) s[i / 4][i % 4] = kHidden;
    }
  }
  // Whether a score that is not hidden is not below the threshold. NaN is passed over, as it makes
  // its row NaN on any path.
  __device__ bool IsWild(const Scores& s) const {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float score = s[i / 4][i % 4];
      largest = fmaxf(largest, score == kHidden ? 0.0f : fabsf(score));
    }
    return largest >= p_.scale.threshold;
  }

  // The warp's probabilities to the step's buffer, with the buckets of a lane's two rows.
  __device__ void StoreProbabilities(const Scores& s, int buffer, float bucket0, float bucket1) {
    const float offset[2] = {ieee::Sub(kGridOffset, bucket0), ieee::Sub(kGridOffset, bucket1)};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int tile = i / 2, half = i % 2;
      const uint32_t pair = sm90::RoundToBf16Pair(Exponential(s[tile][2 * half], offset[half]),
                                                  Exponential(s[tile][2 * half + 1], offset[half]));
      Bf16* to = &shared_.probability[buffer][Row(half)][16 * warp_ + 8 * tile + 2 * quad_lane_];
      *reinterpret_cast<uint32_t*>(to) = pair;
    }
  }

 private:
  static constexpr float kHidden = -__builtin_huge_valf();

  // Addresses of the chunks 2i + odd of a row of a tile. Chunks are permuted by an exclusive or
  // with the row, so another i is another exclusive or, in one instruction.
  struct ChunkPairs {
    static constexpr int kWholeBoxPairs = Config::kHeadDim / kKvBoxDims * 4;

    __device__ ChunkPairs(uint32_t tile, int row, int odd)
        : whole(tile + KvChunkOffset(Config::kHeadDim, row, odd)),
          rest(tile + KvChunkOffset(Config::kHeadDim, row, 2 * kWholeBoxPairs + odd)) {}
    __device__ uint32_t At(int i) const {
      if (i < kWholeBoxPairs) return (whole ^ (i % 4 * 32)) + i / 4 * kKvAtomBytes;
      return rest ^ ((i - kWholeBoxPairs) * 32);
    }
    uint32_t whole, rest;  // for i = 0, and for the first i in the box that is not whole
  };

  // Of this warp's keys in a chunk. Matrices of the load: (keys 0..7, chunk 2i), (0..7, 2i + 1),
  // (8..15, 2i), (8..15, 2i + 1).
  __device__ ChunkPairs OwnKeys(uint32_t chunk) const {
    const int row = warp_ % 4 * 16 + lane_ % 8 + lane_ / 16 * 8;
    return ChunkPairs(chunk, row, lane_ / 8 % 2);
  }

  // GridExp2(GridPoint(score)) before its rounding to bf16.
  __device__ float Exponential(float score, float offset) const {
    return sm90::FlushingExp2(ieee::Sub(ieee::Fma(score, p_.scale.c, offset), kGridOffset));
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SCORES_CUH_
