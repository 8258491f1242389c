#ifndef ISOBIT_KERNELS_CUDA_GEMM_KERNEL_CUH_
#define ISOBIT_KERNELS_CUDA_GEMM_KERNEL_CUH_

// The GEMM kernel, for decode and prefill alike: y[token][output] = x w^T, K never split.
//
//   shared memory   a ring of stages, each one or two boxes of 64 k: of x [tokens][64] and of
//                   weights [tile_rows][64]; one `full` and one `empty` barrier a stage. A staging
//                   area for the results of each warp
//   weight warps    bulk copies of panels into the ring, each its share; in a pair, each CTA copies
//                   half of them, to both
//   x warp          tensor copies of x, zeros beyond its edges
//   warpgroups      wgmma over the ring: 64 tokens times all weight rows of the tile each; then the
//                   epilogue, each warp by itself. Or two warpgroups with 128 tokens each take
//                   tiles in turn, and one multiplies while the other stores
//
// Tokens are the 64-row operand of wgmma. With fewer than 64 the operand reads on into whatever
// lies behind; those rows of the product are never stored, and rows do not mix. Likewise for weight
// rows of a tile that has fewer panels than fit. Boxes past the end of k arrive as zeros, which
// change no chain.
//
// Weights are loaded before the kernels that this launch depends on have ended, and so is what the
// heads of a QkvProjection need; nothing else is.

#include "kernels/cuda/gemm_epilogue.cuh"
#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/copy.h"
#include "kernels/cuda/sm90/named_barrier.h"
#include "kernels/cuda/sm90/register_budget.h"
#include "kernels/cuda/sm90/wgmma.h"

namespace isobit::cuda {

template <int kTileRowsValue, int kWarpgroupsValue, bool kPairValue>
struct GemmConfig {
  static constexpr int kTileRows = kTileRowsValue;
  static constexpr int kWarpgroups = kWarpgroupsValue;
  static constexpr bool kPair = kPairValue;
  static constexpr int kBoxes = BoxesPerStage(kTileRows, kWarpgroups);
  static constexpr int kWeightBoxBytes = kTileRows * kBoxRowBytes;
  // Warps: first the warpgroups (wgmma wants them aligned to 4 warps), then the loaders.
  static constexpr int kWeightWarp = 4 * kWarpgroups;
  static constexpr int kWeightWarps = WeightWarps(kWarpgroups);
  static constexpr int kXWarp = kWeightWarp + kWeightWarps;
  static constexpr int kThreads = CtaThreads(kTileRows, kWarpgroups);
  static constexpr bool kMovesRegisters = MovesRegisters(kTileRows, kWarpgroups);
  static constexpr int kMultiplierRegisters = TakesTurns(kTileRows, kWarpgroups) ? 240 : 232;
  static constexpr int kLoaderRegisters = TakesTurns(kTileRows, kWarpgroups) ? 24 : 40;
  static constexpr bool kTakesTurns = TakesTurns(kTileRows, kWarpgroups);
  // Of 64 tokens, that a warpgroup multiplies at once.
  static constexpr int kHalves = kTakesTurns ? 2 : 1;
  // As many as there are registers for.
  static constexpr int kResidualParts = kWarpgroups < 3 && !kTakesTurns ? 2 : 1;
  // Steps of a stage before the previous slot is given back.
  static constexpr int kLeadSteps = 2 * kBoxes;
  static constexpr bool kRehearses = CanRehearse(kWarpgroups);
  // Every warp that has used a slot gives it back by itself, to both CTAs of a pair.
  static constexpr int kReleases = 4 * (kTakesTurns ? 1 : kWarpgroups) * (kPair ? 2 : 1);
};

// ---- Shared memory

// Addresses in shared memory. Boxes are aligned to 1024 bytes, as swizzled operands must be.
template <class Config>
struct Ring {
  uint32_t x, weight, full, empty;
  uint32_t staging_offset;  // from the start of shared memory
  uint32_t x_box_bytes;
  int stages;

  __device__ Ring(uint32_t base, const GemmParams& p)
      : x(base), x_box_bytes(BoxBytes(p.tokens)), stages(p.stages) {
    constexpr int kRows = Config::kTileRows;
    weight = x + RingBytes(p.tokens, Config::kBoxes, stages);
    staging_offset = RingBytes(p.tokens + kRows, Config::kBoxes, stages);
    full = base + staging_offset + AllStagingBytes(kRows, Config::kWarpgroups, p.tokens);
    empty = full + 8 * stages;
  }
  __device__ uint32_t XBox(int slot, int box) const {
    return x + (slot * Config::kBoxes + box) * x_box_bytes;
  }
  __device__ uint32_t WeightBox(int slot, int box) const {
    return weight + (slot * Config::kBoxes + box) * Config::kWeightBoxBytes;
  }
  __device__ uint32_t Full(int slot) const { return full + 8 * slot; }
  __device__ uint32_t Empty(int slot) const { return empty + 8 * slot; }
};

// A place in the ring: the slot, and the parity of the phase that fills it this time around.
struct RingCursor {
  int slot = 0;
  uint32_t parity = 0;

  __device__ RingCursor Next(int stages) const {
    const bool wraps = slot + 1 == stages;
    return {wraps ? 0 : slot + 1, wraps ? parity ^ 1 : parity};
  }
};

// The tiles of this CTA's unit: for (index = Begin(); index < End(); index += Step()).
template <class Config>
struct Schedule {
  static __device__ int Begin() { return Config::kPair ? blockIdx.x / 2 : blockIdx.x; }
  static __device__ int Step() { return Config::kPair ? gridDim.x / 2 : gridDim.x; }
  static __device__ GemmTile At(const GemmParams& p, int index) { return TileAt(p.order, index); }
  // First row of x that this CTA takes.
  static __device__ int FirstToken(const GemmParams& p, const GemmTile& tile, uint32_t rank) {
    return (Config::kPair ? 2 * tile.token_tile + static_cast<int>(rank) : tile.token_tile) *
           p.tokens;
  }
};

// ---- Barriers

// Each stage's `full` completes when the first weight warp and the x warp have announced all bytes
// and these are there.
// Inits take tens of cycles each and are done by two warps at once.
template <class Config>
__device__ void InitBarriers(const Ring<Config>& ring, int warp) {
  if (warp == Config::kWeightWarp && sm90::ElectOne()) {
    for (int slot = 0; slot < ring.stages; ++slot) sm90::InitBarrier(ring.Full(slot), 2);
    sm90::FenceBarrierInit();
  }
  if (warp == Config::kXWarp && sm90::ElectOne()) {
    for (int slot = 0; slot < ring.stages; ++slot) {
      sm90::InitBarrier(ring.Empty(slot), Config::kReleases);
    }
    sm90::FenceBarrierInit();
  }
  __syncwarp();
  if constexpr (Config::kPair) {
    sm90::SyncClusterRelaxed();
  } else {
    __syncthreads();
  }
}

// ---- Producers, one thread each

// The panels of one tile that one warp copies, in pieces: two panels that lie together, or one of
// them at the ends of the tile. Pieces are dealt evenly to the weight warps of the unit, CTA by
// CTA.
template <class Config>
struct PanelCopies {
  const uint8_t* from;   // box 0 of the first two panels that lie together
  uint32_t skip;         // bytes of these, where the first piece is the second panel only
  int64_t double_bytes;  // of two panels, with all their k
  uint32_t to;           // offset in a box of the ring
  int pieces;
  uint32_t first_bytes, last_bytes;  // of a piece's box
  uint32_t stage_bytes;              // of all panels, from all warps and both CTAs

  // share: the warp's number among the weight warps of its CTA.
  __device__ PanelCopies(const GemmParams& p, const GemmTile& tile, uint32_t rank, int share) {
    constexpr int kShares = Config::kWeightWarps * (Config::kPair ? 2 : 1);
    const int begin = tile.first_group * p.group_panels;
    const int end = begin + tile.groups * p.group_panels;
    const int index = static_cast<int>(rank) * Config::kWeightWarps + share;
    const int first_piece = begin / 2;
    const int all_pieces = (end + 1) / 2 - first_piece;
    const int piece = first_piece + all_pieces * index / kShares;
    pieces = first_piece + all_pieces * (index + 1) / kShares - piece;
    const int first = max(begin, 2 * piece);
    const int last = min(end, 2 * (piece + pieces)) - 1;
    double_bytes = int64_t{p.k_boxes} * kDoubleBoxBytes;
    from = p.weight + piece * double_bytes;
    skip = first % 2 * kPanelBoxBytes;
    to = (first - begin) * kPanelBoxBytes;
    last_bytes = (1 + last % 2) * kPanelBoxBytes;
    first_bytes = pieces == 1 ? last_bytes - skip : kDoubleBoxBytes - skip;
    stage_bytes = (end - begin) * Config::kBoxes * kPanelBoxBytes;
  }

  __device__ void Start(const Ring<Config>& ring, int slot, int box, sm90::CacheHint hint) const {
    const uint32_t barrier = ring.Full(slot);
    const uint8_t* both = from + box * kDoubleBoxBytes;
    const uint8_t* piece = both + skip;
    uint32_t bytes = first_bytes;
    uint32_t place = ring.WeightBox(slot, 0) + to;
#pragma unroll 1
    for (int left = pieces; left > 0; --left) {
#pragma unroll
      for (int b = 0; b < Config::kBoxes; ++b) {
        if constexpr (Config::kPair) {
          sm90::BulkCopyToPair(place + b * Config::kWeightBoxBytes, piece + b * kDoubleBoxBytes,
                               bytes, barrier, hint);
        } else {
          sm90::BulkCopy(place + b * Config::kWeightBoxBytes, piece + b * kDoubleBoxBytes, bytes,
                         barrier, hint);
        }
      }
      place += bytes;
      both += double_bytes;
      piece = both;
      bytes = left == 2 ? last_bytes : kDoubleBoxBytes;
    }
  }
  __device__ void Prefetch(int box, int boxes) const {
    for (int i = 0; boxes > 0 && i < pieces; ++i) {
      sm90::BulkPrefetch(from + i * double_bytes + box * kDoubleBoxBytes, boxes * kDoubleBoxBytes);
    }
  }
};

template <class Config>
__device__ void LoadWeights(const GemmParams& p, const Ring<Config>& ring, uint32_t rank,
                            int share) {
  RingCursor cursor;
  int filled = 0;
  for (int index = Schedule<Config>::Begin(); index < p.tiles; index += Schedule<Config>::Step()) {
    const PanelCopies<Config> copies(p, Schedule<Config>::At(p, index), rank, share);
    for (int box = 0; box < p.k_boxes; box += Config::kBoxes) {
      sm90::Wait(ring.Empty(cursor.slot), cursor.parity ^ 1);
      if (share == 0) sm90::ArriveExpectBytes(ring.Full(cursor.slot), copies.stage_bytes);
      copies.Start(ring, cursor.slot, box, p.weight_hint);
      cursor = cursor.Next(ring.stages);
      // The ring is full and x may still be far away: let L2 fetch what comes next.
      if (++filled == ring.stages) {
        const int next = box + Config::kBoxes;
        copies.Prefetch(next, min(p.prefetch_stages * Config::kBoxes, p.k_boxes - next));
      }
    }
  }
  if constexpr (Config::kPair) {
    // The other CTA's releases must not arrive after this one has exited.
    for (int slot = 0; slot < ring.stages; ++slot) {
      sm90::Wait(ring.Empty(cursor.slot), cursor.parity ^ 1);
      cursor = cursor.Next(ring.stages);
    }
  }
}

template <class Config>
__device__ void LoadX(const GemmParams& p, const Ring<Config>& ring, uint32_t rank) {
  sm90::PrefetchTensorMap(&p.x);
  sm90::WaitForPriorKernels();
  RingCursor cursor;
  for (int index = Schedule<Config>::Begin(); index < p.tiles; index += Schedule<Config>::Step()) {
    const GemmTile tile = Schedule<Config>::At(p, index);
    const int first_token = Schedule<Config>::FirstToken(p, tile, rank);
    for (int box = 0; box < p.k_boxes; box += Config::kBoxes) {
      sm90::Wait(ring.Empty(cursor.slot), cursor.parity ^ 1);
      sm90::ArriveExpectBytes(ring.Full(cursor.slot), Config::kBoxes * p.tokens * kBoxRowBytes);
#pragma unroll
      for (int b = 0; b < Config::kBoxes; ++b) {
        sm90::TensorCopy2D(ring.XBox(cursor.slot, b), &p.x, (box + b) * kBoxCols, first_token,
                           ring.Full(cursor.slot), p.x_hint);
      }
      cursor = cursor.Next(ring.stages);
    }
  }
}

// ---- Consumers

// One warpgroup's way through the ring.
template <class Config>
class Consumer {
 public:
  // Of 64 tokens, or twice that.
  using Accumulators = float[Config::kHalves][Config::kTileRows / 2];

  __device__ Consumer(const Ring<Config>& ring, int warpgroup)
      : ring_(ring), operand_row_bytes_(Config::kTakesTurns ? 0 : warpgroup * kHalfBytes) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    releases_ = Config::kPair ? lane < 2 : lane == 0;
    release_base_ = Config::kPair ? sm90::ClusterAddress(ring.empty, lane % 2) : ring.Empty(0);
    LookUpSlot();
  }

  // d = the chain over k_boxes boxes of 64 k. In a rehearsal the ring may hold anything, and is
  // left as it is.
  __device__ void Multiply(int k_boxes, bool is_rehearsal, Accumulators& d) {
    is_first_stage_ = true;
    ready_ |= is_rehearsal;
    for (int box = 0; box < k_boxes; box += Config::kBoxes) Stage(d);
    Finish(d, !is_rehearsal);
    if (is_rehearsal) {
      cursor_ = {};
      ready_ = false;
      LookUpSlot();
    }
  }

  // The same, in turn with the other warpgroup, whose tile comes before and whose next one after
  // this tile in the ring. Its stages must not even be waited for earlier: barriers tell only two
  // phases apart.
  __device__ void MultiplyInTurn(int k_boxes, bool is_first, bool is_last, Accumulators& d) {
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    if (!is_first) sm90::SyncNamed(1 + warpgroup, 256);
    is_first_stage_ = true;
    for (int box = 0; box < k_boxes; box += Config::kBoxes) Stage(d);
    if (!is_last) sm90::ArriveNamed(2 - warpgroup, 256);
    Finish(d, true);
  }

  // Leaves the stages of a tile to the other warpgroup.
  __device__ void Skip(int k_boxes) {
    const int slot = cursor_.slot + k_boxes / Config::kBoxes;
    cursor_ = {slot % ring_.stages, cursor_.parity ^ (slot / ring_.stages % 2)};
    ready_ = false;
    LookUpSlot();
  }

 private:
  static constexpr int kHalfBytes = 64 * kBoxRowBytes;

  __device__ __forceinline__ void Finish(Accumulators& d, bool releases) {
    sm90::WgmmaWait<0>();
#pragma unroll
    for (auto& half : d) sm90::FenceAccumulators(half);
    Release(previous_slot_, releases);
  }

  // Four k16 steps a box. The first steps are a group of their own: while the tensor core works on
  // them, waiting for all older groups gives the previous slot back, and the next stage's barrier
  // and descriptors are looked up. wgmmas hardly queue, so whatever stands between the last steps
  // of a stage and the first of the next is idle time.
  __device__ __forceinline__ void Stage(Accumulators& d) {
    const int slot = cursor_.slot;
    if (!ready_) sm90::Wait(ring_.Full(slot), cursor_.parity);
    const uint64_t x = x_;
    const uint64_t weight = weight_;

    sm90::WgmmaFence();
    MultiplySteps<0, Config::kLeadSteps>(x, weight, d);
    sm90::WgmmaWait<1>();
    Release(previous_slot_, !is_first_stage_);
    cursor_ = cursor_.Next(ring_.stages);
    ready_ = sm90::TestWait(ring_.Full(cursor_.slot), cursor_.parity);
    LookUpSlot();
    is_first_stage_ = false;
    MultiplySteps<Config::kLeadSteps, 4 * Config::kBoxes>(x, weight, d);
    previous_slot_ = slot;
  }

  // Steps [kBegin, kEnd) of a stage, as one group.
  template <int kBegin, int kEnd>
  __device__ __forceinline__ void MultiplySteps(uint64_t x, uint64_t weight, Accumulators& d) {
#pragma unroll
    for (int step = kBegin; step < kEnd; ++step) {
      const int box = step / 4;
      const uint64_t offset = step % 4 * sm90::kDescriptorStepK16;
#pragma unroll
      for (int half = 0; half < Config::kHalves; ++half) {
        sm90::WgmmaBf16(
            d[half], x + box * (ring_.x_box_bytes / 16) + half * (kHalfBytes / 16) + offset,
            weight + box * (Config::kWeightBoxBytes / 16) + offset, step > 0 || !is_first_stage_);
      }
    }
    sm90::WgmmaCommit();
  }

  __device__ __forceinline__ void LookUpSlot() {
    x_ = sm90::WgmmaDescriptor(ring_.XBox(cursor_.slot, 0) + operand_row_bytes_);
    weight_ = sm90::WgmmaDescriptor(ring_.WeightBox(cursor_.slot, 0));
  }

  // Without a branch: it stands between wgmmas.
  __device__ __forceinline__ void Release(int slot, bool condition) {
    const uint32_t barrier = release_base_ + 8 * slot;
    if constexpr (Config::kPair) {
      sm90::ArriveClusterRelaxedIf(condition && releases_, barrier);
    } else {
      sm90::ArriveIf(condition && releases_, barrier);
    }
  }

  const Ring<Config>& ring_;
  const uint32_t operand_row_bytes_;  // of this warpgroup's 64 tokens in a box of x
  bool releases_;                     // this lane gives slots back
  uint32_t release_base_;             // `empty` of slot 0, of the CTA that this lane tells
  RingCursor cursor_;
  uint64_t x_, weight_;  // descriptors of the cursor's slot
  int previous_slot_ = 0;
  bool is_first_stage_ = true;
  bool ready_ = false;  // the cursor's stage is known to be full
};

template <class Config>
__device__ void Consume(const GemmParams& p, const Ring<Config>& ring, uint8_t* shared, int warp,
                        uint32_t rank) {
  Consumer<Config> consumer(ring, warp / 4);
  Epilogue<Config::kTileRows, Config::kResidualParts> epilogue(
      p, shared + ring.staging_offset + warp * StagingBytes(Config::kTileRows));
  // Decode waits for every instruction that is met for the first time. So the first round is a
  // rehearsal: one stage and the first token's results, which go nowhere.
#pragma unroll 1
  for (int round = Config::kRehearses && p.rehearses ? -1 : 0;; ++round) {
    const bool is_rehearsal = Config::kRehearses && round < 0;
    const int index = Schedule<Config>::Begin() + max(round, 0) * Schedule<Config>::Step();
    if (index >= p.tiles) break;
    const GemmTile tile = Schedule<Config>::At(p, index);
    OutputTile out(p, tile, Schedule<Config>::FirstToken(p, tile, rank), warp);
    const bool is_prepared = Config::kRehearses && p.rehearses && round == 0;
    if (!is_prepared) epilogue.PrepareEarly(out);
    if (!is_rehearsal) {
      sm90::WaitForPriorKernels();  // waits before the first tile only
      epilogue.Prepare(out);
    }
    typename Consumer<Config>::Accumulators d = {};
    consumer.Multiply(is_rehearsal ? Config::kBoxes : p.k_boxes, is_rehearsal, d);
    if (is_rehearsal) out.tokens = min(out.tokens, 1);
    epilogue.Store(out, is_rehearsal, d[0]);
  }
}

// Two warpgroups, each with tiles of its own: the tensor cores have no pause while one stores.
template <class Config>
__device__ void ConsumeInTurns(const GemmParams& p, const Ring<Config>& ring, uint8_t* shared,
                               int warp, uint32_t rank) {
  const int warpgroup = warp / 4;
  Consumer<Config> consumer(ring, warpgroup);
  Epilogue<Config::kTileRows, Config::kResidualParts> epilogue(
      p, shared + ring.staging_offset + warp * StagingBytes(Config::kTileRows));
  const int first = Schedule<Config>::Begin();
  const int step = Schedule<Config>::Step();
  sm90::WaitForPriorKernels();
  if (warpgroup == 1) consumer.Skip(p.k_boxes);
#pragma unroll 1
  for (int index = first + warpgroup * step; index < p.tiles; index += 2 * step) {
    typename Consumer<Config>::Accumulators d = {};
    consumer.MultiplyInTurn(p.k_boxes, index == first, index + step >= p.tiles, d);
    consumer.Skip(p.k_boxes);
    const GemmTile tile = Schedule<Config>::At(p, index);
    const int first_token = Schedule<Config>::FirstToken(p, tile, rank);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const OutputTile out(p, tile, first_token, warp % 4 + 4 * half);
      epilogue.PrepareEarly(out);
      epilogue.Prepare(out);
      epilogue.Store(out, /*is_rehearsal=*/false, d[half]);
    }
  }
}

// ---- The kernel

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    GemmKernel(const __grid_constant__ GemmParams p) {
  extern __shared__ __align__(1024) uint8_t shared[];
  const Ring<Config> ring(sm90::OpaqueSharedAddress(shared), p);
  const int warp = sm90::UniformWarpIndex();
  const uint32_t rank = Config::kPair ? sm90::ClusterRank() : 0;

  InitBarriers(ring, warp);
  sm90::LaunchDependentKernels();
  if (warp < Config::kWeightWarp) {
    if constexpr (Config::kMovesRegisters) sm90::RaiseRegisters<Config::kMultiplierRegisters>();
    if constexpr (Config::kTakesTurns) {
      ConsumeInTurns(p, ring, shared, warp, rank);
    } else {
      Consume(p, ring, shared, warp, rank);
    }
  } else {
    if constexpr (Config::kMovesRegisters) sm90::LowerRegisters<Config::kLoaderRegisters>();
    if (warp < Config::kXWarp) {
      if (sm90::ElectOne()) LoadWeights(p, ring, rank, warp - Config::kWeightWarp);
    } else if (warp == Config::kXWarp) {
      if (sm90::ElectOne()) LoadX(p, ring, rank);
    }
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_KERNEL_CUH_
