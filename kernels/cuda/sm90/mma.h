#ifndef ISOBIT_KERNELS_CUDA_SM90_MMA_H_
#define ISOBIT_KERNELS_CUDA_SM90_MMA_H_

// mma.sync: one warp, D[16][8] = C[16][8] + A[16][16] B[16][8] in bf16 with fp32 accumulation. Each
// element is one Dot16 step (contract 1).
//
// Fragments (PTX ISA, "Matrix fragments for mma.m16n8k16"), with g = lane / 4 and q = lane % 4:
//   a[0] = A[g][2q, 2q+1]  a[1] = A[g+8][2q, ..]  a[2] = A[g][2q+8, ..]  a[3] = A[g+8][2q+8, ..]
//   b[0] = B[2q, 2q+1][g]  b[1] = B[2q+8, ..][g]
//   d[0], d[1] = D[g][2q, 2q+1]  d[2], d[3] = D[g+8][2q, 2q+1]

#include <cstdint>

namespace isobit::sm90 {

__device__ inline void MmaBf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
      " {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_MMA_H_
