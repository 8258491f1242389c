#ifndef ISOBIT_KERNELS_CUDA_NVTX_RANGE_H_
#define ISOBIT_KERNELS_CUDA_NVTX_RANGE_H_

// Names for what a profiler shows. Costs nothing to speak of where none is attached.

#include <nvtx3/nvToolsExt.h>

namespace isobit::cuda {

// A range on the calling thread, as long as the object lives.
class NvtxRange {
 public:
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_NVTX_RANGE_H_
