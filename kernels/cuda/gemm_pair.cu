#include "kernels/cuda/gemm_find_kernel.cuh"
#include "kernels/cuda/gemm_instances.h"

namespace isobit::cuda {

const void* FindPairKernel(int tile_rows) { return FindKernel<kPairTileRows, 1, true>(tile_rows); }

}  // namespace isobit::cuda
