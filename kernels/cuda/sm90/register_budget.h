#ifndef ISOBIT_KERNELS_CUDA_SM90_REGISTER_BUDGET_H_
#define ISOBIT_KERNELS_CUDA_SM90_REGISTER_BUDGET_H_

// setmaxnreg: moves registers between the warpgroups of a CTA. All warps of a warpgroup execute it.
// The budgets of all warpgroups together must fit what the launch was given, or RaiseRegisters
// waits for ever.

namespace isobit::sm90 {

template <int kCount>
__device__ inline void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ inline void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_REGISTER_BUDGET_H_
