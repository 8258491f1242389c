#ifndef ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CUH_
#define ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CUH_

// The prefill kernel: attention of tiles of 192 packed rows (128 if heads are wide) on wgmma
// (contract 4, the fast path only).
//
//   keys' warp       takes tiles and streams their keys through a ring of stages
//   values' warp     does the same with the values
//   2 query warps    bring the next tile's queries, and look at values that some row does not see
//   2 or 3           warpgroups of 64 rows each: probabilities and output in registers. They take
//                    turns, so that one's softmax runs under the others' products, and never stop
//                    between tiles.
//
// All buckets are taken to be 0, and values that a row does not see to be finite. Each warp notes
// whether its rows broke that; if so it stores nothing and hands its 16 rows to the split kernel,
// which is launched next and knows every case. So no case is decided in the loop.
//
// Splits follow each other in one CTA: at the end of one, its output is added to that of those
// before. Where CTAs have few works, some are cut in two, and a CTA goes on where another one has
// stopped, with that one's sums (attention_prefill_work.h).

#include "kernels/cuda/attention_prefill_consumer.cuh"
#include "kernels/cuda/attention_prefill_producer.cuh"
#include "kernels/cuda/attention_prefill_shared.cuh"
#include "kernels/cuda/sm90/async_proxy.h"
#include "kernels/cuda/sm90/barrier.h"
#include "kernels/cuda/sm90/register_budget.h"

namespace isobit::cuda {

// Writes ones behind all values.
template <class Config>
__device__ void WritePrefillOnes(PrefillShared<Config>& shared) {
  constexpr int kPairs = kKvAtomBytes / 4;
  constexpr int kAtoms = Config::kStages * Config::kTileKeys / kKvAtomTokens;
  uint8_t* const values = shared.values[0];
  for (int i = static_cast<int>(threadIdx.x); i < kAtoms * kPairs; i += Config::kThreads) {
    auto* const ones = reinterpret_cast<uint32_t*>(
        values + (i / kPairs + 1) * Config::kValueAtomsBytes - kKvAtomBytes);
    ones[i % kPairs] = uint32_t{kOneBf16.bits} << 16 | kOneBf16.bits;
  }
  sm90::FenceAsyncProxy();
}

template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    AttentionPrefillKernel(const __grid_constant__ AttentionParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  auto& shared = *reinterpret_cast<PrefillShared<Config>*>(memory);
  const PrefillAddresses<Config> at(sm90::OpaqueSharedAddress(memory));
  const int warp = sm90::UniformWarpIndex();
  WritePrefillOnes<Config>(shared);
  InitPrefillBarriers(at);
  __syncthreads();
  sm90::LaunchDependentKernels();
  sm90::WaitForPriorKernels();
  if (warp < Config::kConsumers / 32) {
    sm90::RaiseRegisters<Config::kConsumerRegisters>();
    PrefillConsumer<Config>(p, shared, at, warp).Run();
  } else {
    sm90::LowerRegisters<Config::kProducerRegisters>();
    if (warp == Config::kKeysWarp) {
      PrefillKeysWarp<Config>(p, shared, at).Run();
    } else if (warp == Config::kValuesWarp) {
      RunPrefillValuesWarp(p, shared, at);
    } else {
      const int thread = static_cast<int>(threadIdx.x) - 32 * Config::kFirstQueryWarp;
      PrefillQueryWarps<Config>(p, shared, at, thread).Run();
    }
  }
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_ATTENTION_PREFILL_CUH_
