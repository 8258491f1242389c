#include "kernels/cuda/gemm_find_kernel.cuh"
#include "kernels/cuda/gemm_instances.h"

namespace isobit::cuda {

const void* FindSingleKernel(int tile_rows) {
  return FindKernel<kSingleTileRows, 1, false>(tile_rows);
}

}  // namespace isobit::cuda
