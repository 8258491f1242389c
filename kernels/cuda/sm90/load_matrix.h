#ifndef ISOBIT_KERNELS_CUDA_SM90_LOAD_MATRIX_H_
#define ISOBIT_KERNELS_CUDA_SM90_LOAD_MATRIX_H_

// ldmatrix: four 8x8 matrices of 16-bit elements from shared memory into the fragments of mma.sync.
// Lane l gives the address of row l % 8 (16 bytes) of matrix l / 8. Afterwards r[i] of a lane holds
// elements (row lane / 4, columns 2 (lane % 4) and the next) of matrix i, or of its transpose.

#include <cstdint>

namespace isobit::sm90 {

__device__ inline void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ inline void LoadMatricesTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

}  // namespace isobit::sm90

#endif  // ISOBIT_KERNELS_CUDA_SM90_LOAD_MATRIX_H_
