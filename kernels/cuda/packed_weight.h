#ifndef ISOBIT_KERNELS_CUDA_PACKED_WEIGHT_H_
#define ISOBIT_KERNELS_CUDA_PACKED_WEIGHT_H_

// Weights on the GPU, packed once when they are loaded (packed_layout.h).

#include <cuda_runtime_api.h>

#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/ops.h"

namespace isobit::cuda {

// Queues the packing of logical rows [first, first + count), which lie at `from` in device memory,
// [count][layout.cols] with no padding. Bytes of the packed matrix that hold no element are left
// alone: they must be zero beforehand.
cudaError_t LaunchPackRows(const Bf16* from, int64_t first, int64_t count,
                           const PackedLayout& layout, void* packed, cudaStream_t stream);

class PackedWeight final : public Weight {
 public:
  // Reads all parts, with `threads` threads, and returns when the packed weights are complete.
  // InvalidArgument if the parts make no matrix; ResourceExhausted, with bytes asked for and free,
  // if they do not fit; Internal for an error of the device.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> Load(std::span<const MatrixSource> parts,
                                                            WeightLayout layout, int threads);
  // The same with rows as heads.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> LoadHeads(
      std::span<const MatrixSource> parts, const HeadRows& heads, int threads);
  ~PackedWeight() override;

  const PackedMatrix& matrix() const { return matrix_; }

 private:
  PackedWeight(const PackedMatrix& matrix, WeightLayout layout);

  static absl::StatusOr<std::unique_ptr<PackedWeight>> Load(std::span<const MatrixSource> parts,
                                                            WeightLayout layout,
                                                            const HeadRows& heads, int threads);

  PackedMatrix matrix_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_PACKED_WEIGHT_H_
