#ifndef ISOBIT_KERNELS_CUDA_SM90_COPY_H_
#define ISOBIT_KERNELS_CUDA_SM90_COPY_H_

// The bulk copy engine: from global to shared memory, completing on an mbarrier. PTX ISA 8.x,
// sections "cp.async.bulk" and "cp.async.bulk.tensor".

#include <cuda.h>

#include <cstdint>

namespace isobit::sm90 {

// What L2 should do with the lines of a copy. Values of the hardware's policy descriptors, as
// `createpolicy.fractional` makes them for the whole range.
enum class CacheHint : uint64_t {
  kEvictNormal = 0x1000000000000000,
  kEvictFirst = 0x12F0000000000000,
  kEvictLast = 0x14F0000000000000,
};

// Copies `bytes` (a multiple of 16; both sides aligned to 16) into this CTA's shared memory.
__device__ inline void BulkCopy(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier,
                                CacheHint hint) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(static_cast<uint64_t>(hint))
      : "memory");
}

// As BulkCopy, to the same place in both CTAs of a cluster of two, completing on the barrier at the
// same place in each.
__device__ inline void BulkCopyToPair(uint32_t to, const void* from, uint32_t bytes,
                                      uint32_t barrier, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1], %2, [%3], %4, %5;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(static_cast<uint16_t>(3)),
      "l"(static_cast<uint64_t>(hint))
      : "memory");
}

// Brings global memory into L2.
__device__ inline void BulkPrefetch(const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// Copies the box of a tensor map at these coordinates, innermost first. What lies outside the
// tensor arrives as zeros and counts as bytes.
__device__ inline void TensorCopy2D(uint32_t to, const CUtensorMap* map, int x, int y,
                                    uint32_t barrier, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(static_cast<uint64_t>(hint))
      : "memory");
}

__device__ inline void PrefetchTensorMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_COPY_H_
