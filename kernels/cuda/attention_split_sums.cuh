#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SUMS_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SUMS_CUH_

// Output and row sums: o and l += probabilities times values and ones. A computing warp of the
// split kernel has 16 columns of the output, or two times 16, and adds all keys of each step to
// them.

#include "kernels/cuda/attention_split_scores.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/load_matrix.h"
#include "kernels/cuda/sm90/mma.h"

namespace isobit::cuda {

// Whether a pair of bf16 holds an infinity or a NaN.
__device__ inline bool HasNonFinite(uint32_t pair) {
  return (pair & 0x7f80u) == 0x7f80u || (pair & 0x7f800000u) == 0x7f800000u;
}

// Ones for those of two neighbouring keys, `key` in the low half, that lie in the range.
__device__ inline uint32_t PairMask(KeyRange keys, int key) {
  return (keys.Meets(key, key + 1) ? 0xffffu : 0u) |
         (keys.Meets(key + 1, key + 2) ? 0xffff0000u : 0u);
}

// A warp that also adds probabilities times values.
template <class Config>
class SplitAdder : protected SplitScorer<Config> {
  using Base = SplitScorer<Config>;

 public:
  using Base::Base;

 protected:
  using Base::all_, Base::any_, Base::at_, Base::buffer_, Base::lane_, Base::p_, Base::quad_lane_,
      Base::state_, Base::tile_;
  using Base::AllSee, Base::FragmentOffset, Base::HasPairs, Base::Pair, Base::Release, Base::Row;

  static constexpr int kChunkGroups = Config::kChunkKeys / kDotTerms;

  __device__ void AddChunk(const typename Config::Cursor& at, int step, int chunk) {
    const int begin = step + chunk * Config::kChunkKeys;
    if (HasPairs()) {
      sm90::Wait(at_.values.Full(at.slot), at.parity);
      if (AllSee(begin, begin + Config::kChunkKeys)) {
        AddWholeChunk(at_.values.Slot(at.slot), chunk);
      } else {
        AddHiddenChunk(at_.values.Slot(at.slot), begin, chunk);
      }
      __syncwarp();
    }
    Release(at_.values, at);
  }

  // For chunks that all rows see in full. Fragments are loaded ahead of their use.
  __device__ void AddWholeChunk(uint32_t values, int chunk) {
    uint32_t p[kChunkGroups][4];
#pragma unroll
    for (int g = 0; g < kChunkGroups; ++g)
      LoadProbabilities(buffer_, chunk * kChunkGroups + g, p[g]);
#pragma unroll
    for (int i = 0; i < Config::kOwnPairs; ++i) {
      if (Pair(i) >= Config::kPairs) break;
      uint32_t v[kChunkGroups][4];
#pragma unroll
      for (int g = 0; g < kChunkGroups; ++g) LoadValues(values, g, i, v[g]);
#pragma unroll
      for (int g = 0; g < kChunkGroups; ++g) {
        if (i == 0) AddToSum(p[g]);
        AddPair(p[g], v[g], state_.o[i]);
      }
    }
  }

  __device__ void AddToSum(const uint32_t (&p)[4]) {
    constexpr uint32_t kOnes[2] = {0x3f803f80u, 0x3f803f80u};
    sm90::MmaBf16(state_.l, p, kOnes);
  }

  // Values of group g of a chunk, the columns of own pair i. Matrices of the load: (keys 0..7,
  // columns 0..7), (8..15, 0..7), (0..7, 8..15), (8..15, 8..15).
  __device__ void LoadValues(uint32_t values, int g, int i, uint32_t (&v)[4]) const {
    constexpr int kGroupBytes = 2 * kDotTerms * Config::kHeadDim;
    const int row = lane_ % 8 + lane_ / 8 % 2 * 8;
    sm90::LoadMatricesTransposed(
        v,
        values + g * kGroupBytes + KvChunkOffset(Config::kHeadDim, row, 2 * Pair(i) + lane_ / 16));
  }

  __device__ void LoadProbabilities(int buffer, int group, uint32_t (&p)[4]) const {
    constexpr int kStride = SplitShared<Config>::kProbabilityStride;
    constexpr int kBufferBytes = kSplitTileRows * kStride * static_cast<int>(sizeof(Bf16));
    sm90::LoadMatrices(
        p, at_.probability + buffer * kBufferBytes + FragmentOffset(kStride, group * kDotTerms));
  }

  static __device__ void AddPair(const uint32_t (&p)[4], const uint32_t (&v)[4], float (&o)[2][4]) {
    const uint32_t first[2] = {v[0], v[1]}, second[2] = {v[2], v[3]};
    sm90::MmaBf16(o[0], p, first);
    sm90::MmaBf16(o[1], p, second);
  }

 private:
  // For chunks of which some row does not see some key.
  __device__ void AddHiddenChunk(uint32_t values, int begin, int chunk) {
#pragma unroll 1
    for (int g = 0; g < kChunkGroups; ++g) {
      const int key = begin + g * kDotTerms;
      if (!any_.Meets(key, key + kDotTerms)) continue;
      uint32_t p[4];
      LoadProbabilities(buffer_, chunk * kChunkGroups + g, p);
      AddToSum(p);
#pragma unroll
      for (int i = 0; i < Config::kOwnPairs; ++i) {
        if (Pair(i) >= Config::kPairs) break;
        uint32_t v[4];
        LoadValues(values, g, i, v);
        AddHiddenGroup(key, p, v, state_.o[i]);
      }
    }
  }

  // A group that not all rows see in full. Values count as 0 for rows that don't see their key. For
  // keys that no row sees that is a mask; for keys that some see, probability 0 does the same
  // unless the value is not finite.
  __device__ void AddHiddenGroup(int key, const uint32_t (&p)[4], const uint32_t (&v)[4],
                                 float (&o)[2][4]) const {
    uint32_t masked[4];
    bool unsafe = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = key + i % 2 * 8 + 2 * quad_lane_;
      masked[i] = v[i] & PairMask(any_, at);
      unsafe = unsafe || HasNonFinite(masked[i] & ~PairMask(all_, at));
    }
    if (!__any_sync(0xffffffffu, unsafe)) return AddPair(p, masked, o);
    AddRowByRow(key, p, v, o);
  }

  // The product once for each row, with the values that this row sees.
  __device__ void AddRowByRow(int key, const uint32_t (&p)[4], const uint32_t (&v)[4],
                              float (&o)[2][4]) const {
    const float before[2][4] = {{o[0][0], o[0][1], o[0][2], o[0][3]},
                                {o[1][0], o[1][1], o[1][2], o[1][3]}};
#pragma unroll 1
    for (int row = 0; row < tile_.rows; ++row) {
      const KeyRange seen = tile_.KeysOf(row, p_.group, p_.window);
      uint32_t masked[4];
      float product[2][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        masked[i] = v[i] & PairMask(seen, key + i % 2 * 8 + 2 * quad_lane_);
        product[0][i] = before[0][i];
        product[1][i] = before[1][i];
      }
      AddPair(p, masked, product);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (Row(e / 2) != row) continue;
        o[0][e] = product[0][e];
        o[1][e] = product[1][e];
      }
    }
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_SUMS_CUH_
