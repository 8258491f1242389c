#ifndef ISOBIT_KERNELS_CUDA_SM90_ASYNC_PROXY_H_
#define ISOBIT_KERNELS_CUDA_SM90_ASYNC_PROXY_H_

// Shared memory between ordinary accesses and the asynchronous units (wgmma, bulk copies), and
// 16-byte copies by threads.

#include <cstdint>

namespace isobit::sm90 {

// Makes this thread's ordinary writes to shared memory visible to wgmma and bulk copies. Before the
// barrier that tells those who start them.
__device__ inline void FenceAsyncProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Starts a copy of 16 bytes from global memory; of zeros if `present` is false, in which case
// `from` is not read.
__device__ inline void CopyAsync16(uint32_t to, const void* from, bool present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(present ? 16 : 0)
               : "memory");
}

// Waits for all copies that this thread has started.
__device__ inline void WaitCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_ASYNC_PROXY_H_
