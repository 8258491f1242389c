#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CUH_

// The split kernel: attention of up to 16 packed rows, splits spread over the chip (contract 4).
// Decode runs on it, and whatever the prefill kernel leaves: it knows every case of the contract.
//
//   keys' warp       takes units of work and streams their keys through a ring of chunks of 64
//   values' warp     does the same with the values
//   8 warps          go through a split in steps of 128 keys. Scores are divided by keys, 16 a
//                    warp; probabilities are exchanged in shared memory; the output is divided
//                    by columns, 16 a warp. Every warp keeps l and the buckets of all rows.
//   stored warp      where CTAs have several units: counts finished splits, and sees to it that
//                    those of a tile are merged when the last one is done
//                    (attention_split_merge.cuh; else attention_split_mail.cuh)
//
// When there are fewer units than multiprocessors, a cluster of CTAs shares each of them: every CTA
// has a run of the split's keys and computes the scores of those at once; output, l and buckets
// then go from one to the next, each adding its keys to them. That is the contract's one chain over
// the keys of a split, whoever adds them.
//
// A step whose visible scores all lie below the threshold, in a split whose buckets are all 0,
// needs no maximum (the fast path); then the scores of a step are computed while the one before is
// added. Any other step follows the contract's blocks literally.

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_split_consumer.cuh"
#include "kernels/cuda/attention_split_merge.cuh"
#include "kernels/cuda/attention_split_producer.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"

namespace isobit::cuda {

template <class Config>
__device__ void InitSplitBarriers(const SplitAddresses<Config>& at) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < Config::kSlots) {
    for (const SplitRing<Config>& ring : {at.keys, at.values}) {
      sm90::InitBarrier(ring.Full(thread), 1);
      sm90::InitBarrier(ring.Empty(thread), Config::kWarps * Config::kReleasingLanes);
    }
    sm90::FenceBarrierInit();
  }
  if (thread >= 32 && thread < 32 + SplitShared<Config>::kWorkSlots) {
    sm90::InitBarrier(at.work_full + 8 * (thread - 32), 1);
    sm90::InitBarrier(at.work_empty + 8 * (thread - 32),
                      (Config::kWarps + 1) * Config::kReleasingLanes);
    sm90::InitBarrier(at.stored + 8 * (thread - 32), Config::kWarps);
    sm90::InitBarrier(at.told + 8 * (thread - 32), Config::kReleasingLanes);
    sm90::FenceBarrierInit();
  }
  if constexpr (Config::kShared) {
    if (thread >= 64 && thread < 64 + Config::kWarps) {
      sm90::InitBarrier(at.relay_full + 8 * (thread - 64), 1);
      sm90::FenceBarrierInit();
    }
    __syncwarp();
    sm90::SyncClusterRelaxed();
  } else {
    __syncthreads();
  }
}

// The consumers' last steps of a unit whose result is stored; is_last: of the CTA's last.
template <class Config>
__device__ void FinishUnit(const AttentionParams& p, const SplitShared<Config>& shared,
                           const SplitAddresses<Config>& at,
                           const SlotCursor<SplitShared<Config>::kWorkSlots>& cursor,
                           bool is_last) {
  const SplitWork& work = shared.work[cursor.slot];
  if (is_last && work.splits == 1) return;
  sm90::Wait(at.told + 8 * cursor.slot, cursor.parity);
  if (shared.merges[cursor.slot]) {
    MergeSplits<Config::kHeadDim, Config::kConsumers>(p, work, static_cast<int>(threadIdx.x));
  }
  __syncwarp();
  if (threadIdx.x % 32 < Config::kReleasingLanes) sm90::Arrive(at.work_empty + 8 * cursor.slot);
}

// The units of a CTA, by one warp.
template <class Config>
__device__ void AttendUnits(const AttentionParams& p, const SplitShared<Config>& shared,
                            const SplitAddresses<Config>& at, SplitConsumer<Config>& consumer) {
  SlotCursor<SplitShared<Config>::kWorkSlots> cursor, last;
  for (bool first = true;; first = false, last = cursor, cursor.Advance()) {
    sm90::Wait(at.work_full + 8 * cursor.slot, cursor.parity);
    const bool done = shared.work[cursor.slot].tile.rows == 0;
    if (!done) {
      consumer.Attend(shared.work[cursor.slot]);
      __syncwarp();
      if (threadIdx.x % 32 == 0) sm90::Arrive(at.stored + 8 * cursor.slot);
    }
    // By now it is known whether the unit before was its tile's last.
    if (!first) FinishUnit(p, shared, at, last, done);
    if (done) return;
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    AttentionSplitKernel(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<SplitShared<Config>*>(memory + Config::kRingsBytes);
  const SplitAddresses<Config> at(sm90::OpaqueSharedAddress(memory));
  const int warp = sm90::UniformWarpIndex();
  InitSplitBarriers(at);
  sm90::LaunchDependentKernels();
  if (warp == Config::kKeysWarp) return SplitKeysWarp<Config>(p, shared, at).Run();
  if (warp == Config::kValuesWarp) return RunSplitValuesWarp(p, shared, at);
  if (warp == Config::kStoredWarp) {
    if constexpr (!Config::kShared) SplitStoredWarp<Config>(p, shared, at).Run();
    return;
  }
  SplitConsumer<Config> consumer(p, shared, at, warp);
  if constexpr (Config::kShared) {
    sm90::Wait(at.work_full, 0);
    if (shared.work[0].tile.rows != 0) consumer.Attend(shared.work[0]);
  } else {
    AttendUnits(p, shared, at, consumer);
  }
  sm90::WaitForPriorKernels();
  if (threadIdx.x == 0) consumer.Count();
}

template <class Config>
LaunchShape SplitLaunchShape(int ctas, bool early_start) {
  return {.grid = dim3(static_cast<unsigned>(ctas)),
          .threads = Config::kThreads,
          .shared_bytes = SplitSharedBytes<Config>(),
          .early_start = early_start};
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_SPLIT_CUH_
