#ifndef ISOBIT_KERNELS_CUDA_GEMM_INSTANCES_H_
#define ISOBIT_KERNELS_CUDA_GEMM_INSTANCES_H_

// The compiled GEMM kernels. Each list has a source file of its own, so that they compile side by
// side.

#include "kernels/cuda/gemm_plan.h"

namespace isobit::cuda {

// Rows of a tile, for each kind of unit.
inline constexpr int kSingleTileRows[] = {16, 32, 48, 64, 96, 128, 160, 224};  // 1 warpgroup
inline constexpr int kPairTileRows[] = {32, 64, 96, 128, 192, 224};            // 1 warpgroup
inline constexpr int kWideTileRows[] = {96, 128, 144, 160, 192, 224, 256};     // 2 warpgroups
inline constexpr int kWidePairTileRows[] = {64, 96, 128, 192, 224, 256};  // 2 warpgroups, pairs
inline constexpr int kWidestTileRows[] = {32, 48, 64, 112, 128};          // 3 warpgroups

// The kernel with these rows in its tile, for cudaLaunchKernelExC; null if it is not in the list.
const void* FindSingleKernel(int tile_rows);
const void* FindPairKernel(int tile_rows);
const void* FindWideKernel(int tile_rows);
const void* FindWidePairKernel(int tile_rows);
const void* FindWidestKernel(int tile_rows);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_INSTANCES_H_
