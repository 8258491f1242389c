#ifndef ISOBIT_KERNELS_CUDA_SM90_CLUSTER_STORE_H_
#define ISOBIT_KERNELS_CUDA_SM90_CLUSTER_STORE_H_

// Stores into the shared memory of another CTA of the cluster. PTX ISA 8.x, section "st.async".

#include <cstdint>

namespace isobit::sm90 {

// Stores 16 bytes and counts them on an mbarrier of the CTA that gets them (both addresses from
// ClusterAddress). Whoever has waited for the mbarrier sees them.
__device__ inline void StoreToCluster(uint32_t to, float4 value, uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
      : "memory");
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_CLUSTER_STORE_H_
