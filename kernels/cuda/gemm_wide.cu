#include "kernels/cuda/gemm_find_kernel.cuh"
#include "kernels/cuda/gemm_instances.h"

namespace isobit::cuda {

const void* FindWideKernel(int tile_rows) { return FindKernel<kWideTileRows, 2, false>(tile_rows); }

}  // namespace isobit::cuda
