#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_WARP_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_WARP_CUH_

// What a computing warp of the split kernel knows of its unit of work, and where its part of rows,
// keys and columns is. attention_split.cuh says what the kernel is; what a warp does with its unit
// is in the files that build on this one, each on the one before:
//
//   attention_split_scores.cuh     scores and probabilities of the warp's keys
//   attention_split_sums.cuh       probabilities times values, for the warp's columns
//   attention_split_steps.cuh      the steps of a split, on the fast path and on the exact one
//   attention_split_relay.cuh      a split that a cluster of CTAs shares
//   attention_split_consumer.cuh   a unit from its queries to its results

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/attention_split_shared.cuh"
#include "kernels/cuda/attention_split_state.cuh"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/load_matrix.h"
#include "kernels/cuda/sm90/named_barrier.h"

namespace isobit::cuda {

// One warp. A lane holds two of the 16 rows, lane / 4 and the one 8 further on (half 0 and 1).
template <class Config>
class SplitWarp {
 public:
  static constexpr int kBarrier = 1;  // of all consumers

  __device__ SplitWarp(const AttentionParams& p, SplitShared<Config>& shared,
                       const SplitAddresses<Config>& at, int warp)
      : p_(p),
        shared_(shared),
        at_(at),
        warp_(warp),
        lane_(static_cast<int>(threadIdx.x) % 32),
        quad_lane_(lane_ % 4) {}

 protected:
  static __device__ int Row(int half) { return LaneRows::Index(half); }
  __device__ int Pair(int i) const { return warp_ + Config::kWarps * i; }
  __device__ bool HasPairs() const { return warp_ < Config::kPairs; }
  __device__ int OwnChunk() const { return warp_ / (Config::kWarps / 2); }

  // Whether all rows see all of these keys.
  __device__ bool AllSee(int begin, int end) const {
    return all_.first <= begin && end <= all_.last + 1;
  }

  // Where this lane's row of a 16 x 16 fragment of A begins in a matrix in shared memory, in bytes.
  __device__ int FragmentOffset(int stride, int column) const {
    const int row = lane_ % 8 + lane_ / 8 % 2 * 8;
    return (row * stride + column + lane_ / 16 * 8) * static_cast<int>(sizeof(Bf16));
  }

  __device__ void BeginSplit() {
    exact_ = false;
    state_.Fill(0.0f);
  }

  __device__ void LookAtBuckets() {
    exact_ = __any_sync(0xffffffffu, state_.bucket[0] != 0.0f || state_.bucket[1] != 0.0f);
  }

  __device__ void Release(const SplitRing<Config>& ring, const typename Config::Cursor& at) const {
    if (lane_ < Config::kReleasingLanes) sm90::Arrive(ring.Empty(at.slot));
  }

  // ---- Queries

  // The tile's queries, zeros past its last row, to registers or to shared memory.
  __device__ void LoadQueries() {
    if constexpr (Config::kQueriesInShared) {
      // Scores of the tile before were computed before a barrier that is passed.
      constexpr int kRowPairs = Config::kHeadDim / 2;
      for (int i = static_cast<int>(threadIdx.x); i < kSplitTileRows * kRowPairs;
           i += Config::kConsumers) {
        const int row = i / kRowPairs, pair = i % kRowPairs;
        *reinterpret_cast<uint32_t*>(&shared_.query[row][2 * pair]) =
            row < tile_.rows ? QueryRow(row)[pair] : 0;
      }
      sm90::SyncNamed(kBarrier, Config::kConsumers);
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool present = Row(half) < tile_.rows;
        const uint32_t* from = QueryRow(present ? Row(half) : 0) + quad_lane_;
#pragma unroll
        for (int i = 0; i < Config::kPairs; ++i) {
          query_[i][half] = present ? from[8 * i] : 0;
          query_[i][2 + half] = present ? from[8 * i + 4] : 0;
        }
      }
    }
  }
  // A row of the tile, two elements a word.
  __device__ const uint32_t* QueryRow(int row) const {
    return reinterpret_cast<const uint32_t*>(p_.q +
                                             p_.QueryOffset(tile_, tile_.packed + row, kv_head_));
  }
  // The fragment of 16 dimensions, for mma.sync.
  __device__ void Query(int i, uint32_t (&q)[4]) const {
    if constexpr (Config::kQueriesInShared) {
      constexpr int kStride = SplitShared<Config>::kQueryStride;
      sm90::LoadMatrices(q, at_.query + FragmentOffset(kStride, 16 * i));
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) q[e] = query_[i][e];
    }
  }

  const AttentionParams& p_;
  SplitShared<Config>& shared_;
  const SplitAddresses<Config>& at_;
  const int warp_, lane_, quad_lane_;

  AttentionTile tile_;
  int kv_head_, split_;
  KeyRange any_, all_;  // keys that some row, that all rows of the tile see
  LaneRows rows_;
  uint32_t query_[Config::kQueriesInShared ? 1 : Config::kPairs][4];

  bool exact_;  // a bucket of the split is not 0
  SplitState<Config> state_;

  typename Config::Cursor keys_cursor_, values_cursor_;
  int buffer_ = 0;  // of the probabilities of this step
  unsigned steps_ = 0, exact_steps_ = 0;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_WARP_CUH_
