#ifndef ISOBIT_KERNELS_CUDA_GEMM_FIND_KERNEL_CUH_
#define ISOBIT_KERNELS_CUDA_GEMM_FIND_KERNEL_CUH_

// Instantiates the kernels of a list and finds them by their number of rows.

#include <cstddef>
#include <utility>

#include "kernels/cuda/gemm_kernel.cuh"

namespace isobit::cuda {

template <const auto& kTileRows, int kWarpgroups, bool kPair, size_t... kIndex>
const void* FindKernel(int tile_rows, std::index_sequence<kIndex...>) {
  const void* found = nullptr;
  ((tile_rows == kTileRows[kIndex]
        ? void(found = reinterpret_cast<const void*>(
                   &GemmKernel<GemmConfig<kTileRows[kIndex], kWarpgroups, kPair>>))
        : void()),
   ...);
  return found;
}

template <const auto& kTileRows, int kWarpgroups, bool kPair>
const void* FindKernel(int tile_rows) {
  return FindKernel<kTileRows, kWarpgroups, kPair>(
      tile_rows, std::make_index_sequence<std::size(kTileRows)>());
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_FIND_KERNEL_CUH_
