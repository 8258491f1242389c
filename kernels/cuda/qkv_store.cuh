#ifndef ISOBIT_KERNELS_CUDA_QKV_STORE_CUH_
#define ISOBIT_KERNELS_CUDA_QKV_STORE_CUH_

// The end of a QkvProjection's GEMM: heads are rotated (contract 5) and stored, queries to rows of
// their own, keys and values to the pages of the cache (kv_layout.h).
//
// A warp has the rounded product of its 16 tokens in shared memory, panel by panel, each panel as
// two runs of 8 dimensions (HeadRows of packed_layout.h). One lane takes both runs of a panel and
// a token: it has all elements of 8 pairs, rotates them and stores the runs as 16 bytes each.
//
// Positions, pages and, in small tiles, angles are read before the product is made. Positions and
// pages wait in the padding behind each token's row.

#include <cstdint>

#include "kernels/cuda/bf16_chunk.cuh"
#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/rope.h"

namespace isobit::cuda {

// kRowBytes: of a token in shared memory; kPitch: to the next token, at least 8 more.
// kKeepsAngles: those of a lane's first panel stay in registers while the product is made.
template <int kRowBytes, int kPitch, bool kKeepsAngles>
class QkvStore {
 public:
  // staging: of this warp.
  __device__ QkvStore(const QkvParams& p, uint8_t* staging)
      : p_(p), staging_(staging), lane_(static_cast<int>(threadIdx.x) % 32) {}

  // For a warp's tokens (at most 16) and the panels of its tile.
  __device__ void Prepare(int64_t first_token, int tokens, int first_panel, int panels) {
    if (lane_ < tokens) {
      const int64_t token = first_token + lane_;
      const int position = __ldcg(p_.position + token);
      const int page = __ldcg(p_.page_table + __ldcg(p_.sequence + token) * p_.page_table_stride +
                              p_.page_tokens.Divide(position));
      *PlaceInCache(lane_) = {position, page};
    }
    __syncwarp();
    if (kKeepsAngles && lane_ < tokens * panels) {
      const int position = PlaceInCache(lane_ / panels)->x;
      kept_angles_ = LoadAngles(PlaceOf(first_panel + lane_ % panels), position);
    }
  }

  // Adds biases, in the order of the matrix's logical rows, to what one thread holds of a panel:
  // two neighbours of each run.
  __device__ void AddBias(const float* bias, int panel, float (&v)[4]) const {
    const Place at = PlaceOf(panel);
    const int dim = lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int run = i < 2 ? at.runs.first : at.runs.second;
      const int row = at.head * p_.rows.head_dim + run * kRunDims + dim + i % 2;
      v[i] = ieee::Add(v[i], __ldg(bias + row));
    }
  }

  // Stores staged panels of the same tokens, `panels` of them from first_panel on; in a rehearsal
  // to where they are.
  __device__ void Store(int64_t first_token, int tokens, int first_panel, int panels,
                        bool is_rehearsal) const {
#pragma unroll 2
    for (int item = lane_; item < tokens * panels; item += 32) {
      const int row = item / panels;
      const int panel = item - row * panels;
      const Place at = PlaceOf(first_panel + panel);
      const int2 in_cache = *PlaceInCache(row);
      auto* runs = reinterpret_cast<Bf16*>(staging_ + row * kPitch) + panel * kPanelRows;
      Bf16Chunk first = LoadChunk(runs), second = LoadChunk(runs + kRunDims);
      if (at.runs.is_rotated && p_.rotates) {
        const bool is_kept = kKeepsAngles && item < 32;
        Rotate(is_kept ? kept_angles_ : LoadAngles(at, in_cache.x), first, second);
      }
      const Destination to = DestinationOf(at, first_token + row, in_cache);
      StoreChunk(first, is_rehearsal ? runs : to.first);
      StoreChunk(second, is_rehearsal ? runs + kRunDims : to.second);
    }
  }

 private:
  static_assert(kPitch >= kRowBytes + sizeof(int2));

  // A panel of the matrix: its head and what it holds of it.
  struct Place {
    int head;
    HeadRows::PanelRuns runs;
  };
  struct Angles {
    float cos[kRunDims], sin[kRunDims];
  };

  // Position and page of a token.
  __device__ int2* PlaceInCache(int row) const {
    return reinterpret_cast<int2*>(staging_ + row * kPitch + kRowBytes);
  }

  __device__ Place PlaceOf(int panel) const {
    const int head = p_.head_panels.Divide(panel);
    return {head, p_.rows.RunsOf(head, panel - head * p_.head_panels.value())};
  }

  __device__ Angles LoadAngles(const Place& at, int position) const {
    Angles angles = {};
    if (!at.runs.is_rotated || !p_.rotates) return angles;
    const int64_t first = int64_t{position} * (p_.rows.rotary_dim / 2) + at.runs.first * kRunDims;
#pragma unroll
    for (int i = 0; i < kRunDims; i += 4) {
      *reinterpret_cast<float4*>(angles.cos + i) =
          *reinterpret_cast<const float4*>(p_.cos + first + i);
      *reinterpret_cast<float4*>(angles.sin + i) =
          *reinterpret_cast<const float4*>(p_.sin + first + i);
    }
    return angles;
  }

  static __device__ void Rotate(const Angles& angles, Bf16Chunk& first, Bf16Chunk& second) {
#pragma unroll
    for (int i = 0; i < kRunDims; i += 2) {
      float y1[2], y2[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        RotatePair(first.Element(i + e), second.Element(i + e), angles.cos[i + e],
                   angles.sin[i + e], &y1[e], &y2[e]);
      }
      first.pair[i / 2] = sm90::RoundToBf16Pair(y1[0], y1[1]);
      second.pair[i / 2] = sm90::RoundToBf16Pair(y2[0], y2[1]);
    }
  }

  // Where the two runs go.
  struct Destination {
    void *first, *second;
  };
  __device__ Destination DestinationOf(const Place& at, int64_t token, int2 in_cache) const {
    const int key_head = at.head - p_.heads;
    if (key_head < 0) {
      Bf16* head = p_.q + (token * p_.heads + at.head) * p_.rows.head_dim;
      return {head + at.runs.first * kRunDims, head + at.runs.second * kRunDims};
    }
    const auto [position, page] = in_cache;
    const int value_head = key_head - p_.kv_heads;
    uint8_t* tile = p_.cache_layer + (value_head < 0 ? p_.cache.KeysOffset(page, key_head)
                                                     : p_.cache.ValuesOffset(page, value_head));
    const int slot = p_.page_tokens.Remainder(position);
    return {tile + KvChunkOffset(p_.rows.head_dim, slot, at.runs.first),
            tile + KvChunkOffset(p_.rows.head_dim, slot, at.runs.second)};
  }

  const QkvParams& p_;
  uint8_t* const staging_;
  const int lane_;
  Angles kept_angles_ = {};
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_QKV_STORE_CUH_
