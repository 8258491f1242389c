#ifndef ISOBIT_KERNELS_NUMERICS_HOST_DEVICE_H_
#define ISOBIT_KERNELS_NUMERICS_HOST_DEVICE_H_

// The contract is one source for two compilers. This header holds what differs between them: the
// marker for functions that run on both sides, and the IEEE operations that a compiler must neither
// fuse nor replace.
//
// On the host the plain operators are the IEEE operations because every target is compiled with
// -ffp-contract=off. In device code nvcc fuses a * b + c unless told otherwise, so the contract
// never relies on flags there: it names the rounding intrinsics.

#if defined(__CUDACC__)
#define ISOBIT_HOST_DEVICE __host__ __device__
#else
#define ISOBIT_HOST_DEVICE
#endif

#if defined(__FAST_MATH__) || defined(__USE_FAST_MATH__) || defined(__CUDA_FTZ)
#error "isobit's numeric contract can't be compiled with fast math or flushed denormals"
#endif
#if !defined(__CUDA_ARCH__) && defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "isobit's numeric contract needs single precision arithmetic that is not widened"
#endif

namespace isobit::ieee {

ISOBIT_HOST_DEVICE inline float Add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

ISOBIT_HOST_DEVICE inline float Sub(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}

ISOBIT_HOST_DEVICE inline float Mul(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

ISOBIT_HOST_DEVICE inline float Div(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

ISOBIT_HOST_DEVICE inline float Sqrt(float a) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(a);
#else
  return __builtin_sqrtf(a);
#endif
}

// a * b + c, rounded once. Without a fused instruction the host calls the C library's fmaf, which
// IEEE 754 fixes to the last bit; a test holds it to that.
ISOBIT_HOST_DEVICE inline float Fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

ISOBIT_HOST_DEVICE inline double Add(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

ISOBIT_HOST_DEVICE inline double Sub(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dsub_rn(a, b);
#else
  return a - b;
#endif
}

ISOBIT_HOST_DEVICE inline double Mul(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

ISOBIT_HOST_DEVICE inline double Div(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __ddiv_rn(a, b);
#else
  return a / b;
#endif
}

ISOBIT_HOST_DEVICE inline double Sqrt(double a) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(a);
#else
  return __builtin_sqrt(a);
#endif
}

ISOBIT_HOST_DEVICE inline double Fma(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

}  // namespace isobit::ieee

#endif  // ISOBIT_KERNELS_NUMERICS_HOST_DEVICE_H_
