#ifndef ISOBIT_KERNELS_CUDA_SM90_EXP2_H_
#define ISOBIT_KERNELS_CUDA_SM90_EXP2_H_

// The hardware's exponential. Its error is below 2^-22.7, so its result, rounded to bf16, is
// GridExp2 of kernels/numerics/grid_exp.h for every argument that function takes. Results below
// 2^-126 are flushed to 0, as GridExp2 wants them. Unrounded results must decide nothing.
// kernels/cuda/device_check.h repeats the proof on the device at start.

namespace isobit::sm90 {

__device__ inline float FlushingExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_EXP2_H_
