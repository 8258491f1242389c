#ifndef ISOBIT_KERNELS_CUDA_SM90_RELAXED_H_
#define ISOBIT_KERNELS_CUDA_SM90_RELAXED_H_

// Global memory that CTAs of one launch read while others write it. Every 32-bit word is read as
// some CTA has written it; nothing is said of the order between words.

namespace isobit::sm90 {

__device__ inline float4 LoadRelaxed(const float4* from) {
  float4 value;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "l"(from)
               : "memory");
  return value;
}
__device__ inline float2 LoadRelaxed(const float2* from) {
  float2 value;
  asm volatile("ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];"
               : "=f"(value.x), "=f"(value.y)
               : "l"(from)
               : "memory");
  return value;
}

__device__ inline void StoreRelaxed(float4* to, float4 value) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.x),
               "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}
__device__ inline void StoreRelaxed(float2* to, float2 value) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(value.x), "f"(value.y)
               : "memory");
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_RELAXED_H_
