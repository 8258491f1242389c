#ifndef ISOBIT_KERNELS_CUDA_SM90_BARRIER_H_
#define ISOBIT_KERNELS_CUDA_SM90_BARRIER_H_

// Barriers of Hopper: mbarriers in shared memory, clusters of CTAs, and dependent launches.
// PTX ISA 8.x, sections "mbarrier", "barrier.cluster" and "griddepcontrol".
//
// Shared memory is addressed by 32-bit addresses of the shared window, never by generic pointers.

#include <cstdint>

namespace isobit::sm90 {

// The address of dynamic shared memory. Passing it through an opaque move keeps the compiler from
// deriving it again (S2R SR_CgaCtaId) at every use inside loops.
__device__ inline uint32_t OpaqueSharedAddress(const void* shared) {
  uint32_t address;
  asm volatile("mov.u32 %0, %1;"
               : "=r"(address)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))));
  return address;
}

// The index of the calling warp, in a form that the compiler knows to be the same in all its lanes.
__device__ inline int UniformWarpIndex() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
}

// True in exactly one lane of a converged warp.
__device__ inline bool ElectOne() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

// ---- mbarrier

__device__ inline void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the cluster and to the copy engine. By the initialising
// thread, before the barrier (of CTA or cluster) that lets the others go on.
__device__ inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// As Arrive, but only if `predicate`, without a branch: a branch between two wgmmas costs a fence.
__device__ inline void ArriveIf(bool predicate, uint32_t barrier) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %0, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%1];\n"
      "}\n" ::"r"(static_cast<uint32_t>(predicate)),
      "r"(barrier)
      : "memory");
}

// Arrival at a barrier of any CTA of the cluster (an address from ClusterAddress). Relaxed: it says
// that reads are done, and no written data has to become visible with it. The default, .release,
// compiles to a fence of the whole GPU.
__device__ inline void ArriveClusterRelaxedIf(bool predicate, uint32_t barrier) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %0, 0;\n"
      "@p mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%1];\n"
      "}\n" ::"r"(static_cast<uint32_t>(predicate)),
      "r"(barrier)
      : "memory");
}

// One arrival that also announces bytes that copies will deliver in this phase.
__device__ inline void ArriveExpectBytes(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Whether the phase of this parity has completed. Does not wait.
__device__ inline bool TestWait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Waits until the phase of this parity has completed.
__device__ inline void Wait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (done == 0);
}

// ---- Clusters

__device__ inline uint32_t ClusterRank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// The address, in the cluster's window, of what lies at `address` in the CTA of this rank.
__device__ inline uint32_t ClusterAddress(uint32_t address, uint32_t rank) {
  uint32_t mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

// A barrier of all threads of the cluster. Orders initialised mbarriers (after FenceBarrierInit)
// and nothing else: the arrival is relaxed because .release is a fence of the whole GPU.
__device__ inline void SyncClusterRelaxed() {
  asm volatile(
      "barrier.cluster.arrive.relaxed.aligned;\n"
      "barrier.cluster.wait.aligned;\n" ::
          : "memory");
}

// ---- Programmatic dependent launch

// Waits until all kernels that this launch depends on have completed and their writes are visible.
// Returns at once in an ordinary launch.
__device__ inline void WaitForPriorKernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Lets the next dependent kernel start as soon as resources are free.
__device__ inline void LaunchDependentKernels() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_BARRIER_H_
