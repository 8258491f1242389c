#ifndef ISOBIT_KERNELS_CUDA_SM90_ATOMIC_H_
#define ISOBIT_KERNELS_CUDA_SM90_ATOMIC_H_

namespace isobit::sm90 {

// Adds 1 to a counter in global memory, or sets it to 0 if it is `last`; returns what it was. What
// this thread has written or seen written before is visible to whoever counts after it, and what
// those before it wrote is visible to this thread afterwards. Much cheaper than __threadfence().
__device__ inline unsigned IncrementInOrder(unsigned* counter, unsigned last) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(last)
               : "memory");
  return before;
}

// A word of global memory by which one thread tells another, of any CTA, that something is written.
// What this thread has written or seen written before is visible to whoever reads the word, with
// LoadAcquire, as it is now.
__device__ inline void StoreRelease(unsigned* to, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
__device__ inline unsigned LoadAcquire(const unsigned* from) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_ATOMIC_H_
