#include "kernels/cuda/gemm_find_kernel.cuh"
#include "kernels/cuda/gemm_instances.h"

namespace isobit::cuda {

const void* FindWidestKernel(int tile_rows) {
  return FindKernel<kWidestTileRows, 3, false>(tile_rows);
}

}  // namespace isobit::cuda
