#ifndef ISOBIT_KERNELS_CUDA_COLD_WEIGHTS_H_
#define ISOBIT_KERNELS_CUDA_COLD_WEIGHTS_H_

// Weights of one shape several times over, for timing: calls that take turns with them find none in
// L2, as in a model.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/packed_layout.h"

namespace isobit::cuda {

class ColdWeights {
 public:
  // `copies` random matrices, each row-major and packed, in memory of the current device, complete
  // on return. ResourceExhausted if they don't fit.
  static absl::StatusOr<std::unique_ptr<ColdWeights>> Create(const PackedLayout& layout,
                                                             int copies);
  // So many that L2 holds a tenth of them at most, and at least two.
  static int CopiesFor(const PackedLayout& layout);

  const PackedLayout& layout() const { return layout_; }
  int copies() const { return static_cast<int>(packed_.size()); }
  // Of call i: the copies take turns.
  PackedMatrix Packed(int i) const { return {layout_, packed_[Index(i)].get()}; }
  const Bf16* Rows(int i) const { return rows_[Index(i)].get(); }  // [layout.rows][layout.cols]

 private:
  explicit ColdWeights(const PackedLayout& layout) : layout_(layout) {}
  size_t Index(int i) const { return static_cast<size_t>(i) % packed_.size(); }

  const PackedLayout layout_;
  std::vector<DeviceArray<Bf16>> rows_;
  std::vector<DeviceArray<uint8_t>> packed_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_COLD_WEIGHTS_H_
