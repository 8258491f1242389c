#include "kernels/cuda/gemm_find_kernel.cuh"
#include "kernels/cuda/gemm_instances.h"

namespace isobit::cuda {

const void* FindWidePairKernel(int tile_rows) {
  return FindKernel<kWidePairTileRows, 2, true>(tile_rows);
}

}  // namespace isobit::cuda
