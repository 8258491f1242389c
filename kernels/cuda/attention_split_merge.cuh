#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_MERGE_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_MERGE_CUH_

// What becomes of the splits of a tile when each had a unit of its own, and CTAs have several units
// (else see attention_split_mail.cuh): results wait in global memory, and the CTA that finishes the
// last one merges all of them, in their order.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_split_shared.cuh"
#include "kernels/cuda/sm90/atomic.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/convert.h"
#include "kernels/numerics/attention.h"

namespace isobit::cuda {

// The result of a split, in global memory.
struct SplitPartial {
  float* o;  // [partial_rows][head_dim]
  float* l;  // [partial_rows]
  float* bucket;

  __device__ SplitPartial(const AttentionParams& p, const SplitWork& work, int split) {
    const int64_t unit = work.first_unit + split - work.tile_first_split;
    const int head_dim = p.layout.head_dim;
    o = p.partial +
        (unit * p.kv_heads() + work.kv_head) * SplitPartialFloats(p.partial_rows, head_dim);
    l = o + p.partial_rows * head_dim;
    bucket = l + p.partial_rows;
  }
  __device__ void Advance(int64_t floats) {
    o += floats;
    l += floats;
    bucket += floats;
  }
};

// MergeSplit (contract 4) for four columns of a row.
struct AttentionState4 {
  bool empty = true;
  float bucket = 0.0f, l = 0.0f;
  float4 o = {};

  __device__ void Add(AttentionState4 split) {
    if (empty) {
      *this = split;
      return;
    }
    if (__builtin_expect(bucket != split.bucket, 0)) {
      if (bucket < split.bucket) {
        RaiseTo(split.bucket);
      } else {
        split.RaiseTo(bucket);
      }
    }
    l = ieee::Add(l, split.l);
    o = {ieee::Add(o.x, split.o.x), ieee::Add(o.y, split.o.y), ieee::Add(o.z, split.o.z),
         ieee::Add(o.w, split.o.w)};
  }
  __device__ void RaiseTo(float higher) {
    const int steps = min(BucketSteps(higher, bucket), 5);
#pragma unroll 1
    for (int i = 0; i < steps; ++i) {
      l = ieee::Mul(l, 0x1p-64f);
      o = {ieee::Mul(o.x, 0x1p-64f), ieee::Mul(o.y, 0x1p-64f), ieee::Mul(o.z, 0x1p-64f),
           ieee::Mul(o.w, 0x1p-64f)};
    }
    bucket = higher;
  }
  __device__ uint2 Output() const {
    const float inverse = ieee::Div(1.0f, l);
    return {sm90::RoundToBf16Pair(ieee::Mul(o.x, inverse), ieee::Mul(o.y, inverse)),
            sm90::RoundToBf16Pair(ieee::Mul(o.z, inverse), ieee::Mul(o.w, inverse))};
  }
};

// Merges all splits of a tile, left to right. By kThreads threads, of which this is number
// `thread`; each takes four columns of a row.
template <int kHeadDim, int kThreads>
__device__ void MergeSplits(const AttentionParams& p, const SplitWork& work, int thread) {
  constexpr int kQuads = kHeadDim / 4;  // of a row
  constexpr int kAhead = 8;             // splits whose results are fetched before they are merged
  const int64_t stride = p.kv_heads() * SplitPartialFloats(p.partial_rows, kHeadDim);
  for (int item = thread; item < work.tile.rows * kQuads; item += kThreads) {
    const int row = item / kQuads, column = item % kQuads * 4;
    const KeyRange seen = work.tile.KeysOf(row, p.group, p.window);
    const int end = seen.last / kSplitKeys + 1;
    AttentionState4 merged;
    SplitPartial from(p, work, seen.first / kSplitKeys);
#pragma unroll 1
    for (int first = seen.first / kSplitKeys; first < end; first += kAhead) {
      AttentionState4 split[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i >= end) break;
        const float* o = from.o + row * kHeadDim + column;
        split[i] = {false, __ldcg(from.bucket + row), __ldcg(from.l + row),
                    __ldcg(reinterpret_cast<const float4*>(o))};
        from.Advance(stride);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (first + i < end) merged.Add(split[i]);
      }
    }
    Bf16* out = p.out + p.QueryOffset(work.tile, work.tile.packed + row, work.kv_head);
    *reinterpret_cast<uint2*>(out + column) = merged.Output();
  }
}

// The warp that tells other CTAs when the result of a unit is stored, and finds out whether it was
// its tile's last. Then it merges the tile while the consumers work on their next unit; if there is
// none it asks them to, as they are faster.
template <class Config>
class SplitStoredWarp {
 public:
  __device__ SplitStoredWarp(const AttentionParams& p, SplitShared<Config>& shared,
                             const SplitAddresses<Config>& at)
      : p_(p), shared_(shared), at_(at), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run() {
    sm90::WaitForPriorKernels();
    Cursor cursor;
    for (;; cursor.Advance()) {
      sm90::Wait(at_.work_full + 8 * cursor.slot, cursor.parity);
      const SplitWork work = shared_.work[cursor.slot];
      if (work.tile.rows == 0) return;
      sm90::Wait(at_.stored + 8 * cursor.slot, cursor.parity);
      const bool merges = work.splits > 1 && IsLastOfTile(work);
      const bool merges_here = merges && HasWork(cursor.After(1));
      __syncwarp();
      if (lane_ == 0) shared_.merges[cursor.slot] = merges && !merges_here;
      if (lane_ < Config::kReleasingLanes) sm90::Arrive(at_.told + 8 * cursor.slot);
      if (merges_here) MergeSplits<Config::kHeadDim, 32>(p_, work, lane_);
    }
  }

 private:
  using Cursor = SlotCursor<SplitShared<Config>::kWorkSlots>;

  // The counter is 0 again when the last has been counted.
  __device__ bool IsLastOfTile(const SplitWork& work) const {
    const auto last = static_cast<unsigned>(work.splits - 1);
    unsigned before = 0;
    if (lane_ == 0) {
      unsigned* done = p_.splits_done + int64_t{work.tile_slot} * p_.kv_heads() + work.kv_head;
      before = sm90::IncrementInOrder(done, last);
    }
    before = __shfl_sync(0xffffffffu, before, 0);
    __syncwarp();
    return before == last;
  }

  // Whether the next unit is known already.
  __device__ bool HasWork(const Cursor& next) const {
    const bool known = sm90::TestWait(at_.work_full + 8 * next.slot, next.parity) &&
                       shared_.work[next.slot].tile.rows != 0;
    return __all_sync(0xffffffffu, known);
  }

  const AttentionParams& p_;
  SplitShared<Config>& shared_;
  const SplitAddresses<Config>& at_;
  const int lane_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_MERGE_CUH_
