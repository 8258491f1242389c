#ifndef ISOBIT_KERNELS_CUDA_GEMM_KERNEL_CUH_
#define ISOBIT_KERNELS_CUDA_GEMM_KERNEL_CUH_

// The GEMM kernel, for decode and prefill alike: y[token][output] = x w^T, K never split.
//
//   shared memory   a ring of stages, each some boxes of 64 k: a box of x [tokens][64] and a box
//                   of weights [tile_rows][64]; one `full` and one `empty` barrier a stage
//   weight warp     bulk copies of panels into the ring; in a pair, every other panel, to both CTAs
//   x warp          tensor copies of x, zeros beyond its edges
//   warpgroups      wgmma over the ring: 64 tokens times all weight rows of the tile each, then the
//                   epilogue, from registers to memory
//
// Tokens are the 64-row operand of wgmma. With fewer than 64 the operand reads on into whatever
// lies behind; those rows of the product are never stored, and rows do not mix. Likewise for weight
// rows of a tile that has fewer panels than fit.
//
// Weights are loaded before the kernels that this launch depends on have ended; nothing else is.

#include "kernels/cuda/gemm_epilogue.cuh"
#include "kernels/cuda/gemm_params.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/copy.h"
#include "kernels/cuda/sm90/wgmma.h"

namespace isobit::cuda {

template <int kTileRowsValue, int kWarpgroupsValue, bool kPairValue>
struct GemmConfig {
  static constexpr int kTileRows = kTileRowsValue;
  static constexpr int kWarpgroups = kWarpgroupsValue;
  static constexpr bool kPair = kPairValue;
  static constexpr int kBoxes = BoxesPerStage(kTileRows);
  static constexpr int kWeightBoxBytes = kTileRows * kBoxRowBytes;
  // Warps: first the warpgroups (wgmma wants them aligned to 4 warps), then the two loaders.
  static constexpr int kWeightWarp = 4 * kWarpgroups;
  static constexpr int kXWarp = kWeightWarp + 1;
  static constexpr int kThreads = 32 * (kXWarp + 1);
  // Every warp of a warpgroup gives a slot back by itself, to both CTAs of a pair.
  static constexpr int kReleases = 4 * kWarpgroups * (kPair ? 2 : 1);
};

// ---- Shared memory

// Addresses of the ring. Slots are aligned to 1024 bytes, as swizzled operands must be.
template <class Config>
struct Ring {
  uint32_t x, weight, full, empty;
  uint32_t x_box_bytes;
  int stages;

  __device__ Ring(uint32_t base, const GemmParams& p)
      : x(base), x_box_bytes(p.tokens * kBoxRowBytes), stages(p.stages) {
    weight = x + stages * Config::kBoxes * x_box_bytes;
    full = weight + stages * Config::kBoxes * Config::kWeightBoxBytes;
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
  static __device__ GemmTile At(const GemmParams& p, int index) {
    return TileAt(index, p.token_tiles, p.row_tiles, p.panels);
  }
  // First row of x that this CTA takes.
  static __device__ int FirstToken(const GemmParams& p, const GemmTile& tile, uint32_t rank) {
    return (Config::kPair ? 2 * tile.token_tile + static_cast<int>(rank) : tile.token_tile) *
           p.tokens;
  }
};

// ---- Barriers

// Each stage's `full` completes when both loaders have announced their bytes and these are there.
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

template <class Config>
__device__ void LoadWeights(const GemmParams& p, const Ring<Config>& ring, uint32_t rank) {
  RingCursor cursor;
  int filled = 0;
  for (int index = Schedule<Config>::Begin(); index < p.tiles; index += Schedule<Config>::Step()) {
    const GemmTile tile = Schedule<Config>::At(p, index);
    const uint32_t panel_bytes = p.panel_box_bytes;
    const int64_t panel_stride = int64_t{p.k_boxes} * panel_bytes;
    const uint8_t* tile_data = p.weight + tile.first_panel * panel_stride;
    for (int box = 0; box < p.k_boxes; box += Config::kBoxes) {
      const int boxes = min(Config::kBoxes, p.k_boxes - box);
      sm90::Wait(ring.Empty(cursor.slot), cursor.parity ^ 1);
      sm90::ArriveExpectBytes(ring.Full(cursor.slot), tile.panels * boxes * panel_bytes);
      for (int panel = rank; panel < tile.panels; panel += Config::kPair ? 2 : 1) {
        const uint8_t* from = tile_data + panel * panel_stride + int64_t{box} * panel_bytes;
#pragma unroll
        for (int b = 0; b < Config::kBoxes; ++b) {
          if (b >= boxes) break;
          const uint32_t to = ring.WeightBox(cursor.slot, b) + panel * panel_bytes;
          if constexpr (Config::kPair) {
            sm90::BulkCopyToPair(to, from + b * panel_bytes, panel_bytes, ring.Full(cursor.slot),
                                 p.weight_hint);
          } else {
            sm90::BulkCopy(to, from + b * panel_bytes, panel_bytes, ring.Full(cursor.slot),
                           p.weight_hint);
          }
        }
      }
      cursor = cursor.Next(ring.stages);
      // The ring is full and x may still be far away: let L2 fetch what comes next.
      if (++filled == ring.stages) {
        const int ahead = min(p.prefetch_boxes, p.k_boxes - box - boxes);
        for (int panel = rank; ahead > 0 && panel < tile.panels; panel += Config::kPair ? 2 : 1) {
          sm90::BulkPrefetch(tile_data + panel * panel_stride + int64_t{box + boxes} * panel_bytes,
                             ahead * panel_bytes);
        }
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
      const int boxes = min(Config::kBoxes, p.k_boxes - box);
      sm90::Wait(ring.Empty(cursor.slot), cursor.parity ^ 1);
      sm90::ArriveExpectBytes(ring.Full(cursor.slot), boxes * ring.x_box_bytes);
#pragma unroll
      for (int b = 0; b < Config::kBoxes; ++b) {
        if (b >= boxes) break;
        sm90::TensorCopy2D(ring.XBox(cursor.slot, b), &p.x, (box + b) * kBoxCols, first_token,
                           ring.Full(cursor.slot), sm90::CacheHint::kEvictLast);
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
  using Accumulators = float[Config::kTileRows / 2];

  __device__ Consumer(const Ring<Config>& ring, int warpgroup)
      : ring_(ring), operand_row_bytes_(warpgroup * 64 * kBoxRowBytes) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    releases_ = Config::kPair ? lane < 2 : lane == 0;
    release_base_ = Config::kPair ? sm90::ClusterAddress(ring.empty, lane % 2) : ring.Empty(0);
  }

  // d = the chain over k_boxes boxes of 64 k.
  __device__ void Multiply(int k_boxes, Accumulators& d) {
    is_first_stage_ = true;
    int box = 0;
    for (; box + Config::kBoxes <= k_boxes; box += Config::kBoxes) Stage<Config::kBoxes>(d);
    if (Config::kBoxes > 1 && box < k_boxes) Stage<1>(d);
    sm90::WgmmaWait<0>();
    sm90::FenceAccumulators(d);
    Release(previous_slot_, true);
  }

 private:
  // Four k16 steps a box. The first step is a group of its own: once it is issued, waiting for all
  // older groups gives the previous slot back while the tensor core stays busy. The next stage's
  // barrier is looked at before the rest is issued, so that a ring that is ahead costs no wait.
  template <int kBoxes>
  __device__ __forceinline__ void Stage(Accumulators& d) {
    const int slot = cursor_.slot;
    if (!ready_) sm90::Wait(ring_.Full(slot), cursor_.parity);
    uint64_t x = sm90::WgmmaDescriptor(ring_.XBox(slot, 0) + operand_row_bytes_);
    uint64_t weight = sm90::WgmmaDescriptor(ring_.WeightBox(slot, 0));

    sm90::WgmmaFence();
    sm90::WgmmaBf16(d, x, weight, !is_first_stage_);
    sm90::WgmmaCommit();
    sm90::WgmmaWait<1>();
    Release(previous_slot_, !is_first_stage_);
    cursor_ = cursor_.Next(ring_.stages);
    ready_ = sm90::TestWait(ring_.Full(cursor_.slot), cursor_.parity);
#pragma unroll
    for (int step = 1; step < 4 * kBoxes; ++step) {
      const int box = step / 4;
      const uint64_t offset = step % 4 * sm90::kDescriptorStepK16;
      sm90::WgmmaBf16(d, x + box * (ring_.x_box_bytes / 16) + offset,
                      weight + box * (Config::kWeightBoxBytes / 16) + offset, 1);
    }
    sm90::WgmmaCommit();
    previous_slot_ = slot;
    is_first_stage_ = false;
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
  int previous_slot_ = 0;
  bool is_first_stage_ = true;
  bool ready_ = false;  // the cursor's stage is known to be full
};

template <class Config>
__device__ void Consume(const GemmParams& p, const Ring<Config>& ring, int warpgroup,
                        uint32_t rank) {
  sm90::WaitForPriorKernels();
  Consumer<Config> consumer(ring, warpgroup);
  for (int index = Schedule<Config>::Begin(); index < p.tiles; index += Schedule<Config>::Step()) {
    const GemmTile tile = Schedule<Config>::At(p, index);
    Epilogue<Config::kTileRows> epilogue(p, tile, Schedule<Config>::FirstToken(p, tile, rank),
                                         warpgroup * 64);
    typename Consumer<Config>::Accumulators d = {};
    consumer.Multiply(p.k_boxes, d);
    epilogue.Store(d);
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
  if (warp == Config::kWeightWarp) {
    if (sm90::ElectOne()) LoadWeights(p, ring, rank);
  } else if (warp == Config::kXWarp) {
    if (sm90::ElectOne()) LoadX(p, ring, rank);
  } else {
    Consume(p, ring, warp / 4, rank);
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_KERNEL_CUH_
