#ifndef ISOBIT_KERNELS_CUDA_SM90_BULK_COPY_H_
#define ISOBIT_KERNELS_CUDA_SM90_BULK_COPY_H_

// Copies of contiguous pieces by the bulk copy engine. PTX ISA 8.x, section "cp.async.bulk".

#include <cstdint>

#include "kernels/cuda/sm90/copy.h"

namespace isobit::sm90 {

// Copies `bytes` (a multiple of 16; both sides aligned to 16) from global memory into this CTA's
// shared memory and counts them on the mbarrier.
__device__ inline void BulkLoad(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier,
                                CacheHint hint) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(static_cast<uint64_t>(hint))
      : "memory");
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_BULK_COPY_H_
