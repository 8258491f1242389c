#include "kernels/cuda/cold_weights.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/packed_weight.h"
#include "kernels/cuda/qualify_inputs.h"

namespace isobit::cuda {

absl::StatusOr<std::unique_ptr<ColdWeights>> ColdWeights::Create(const PackedLayout& layout,
                                                                 int copies) {
  std::unique_ptr<ColdWeights> weights(new ColdWeights(layout));
  const int64_t elements = layout.rows * layout.cols;
  const auto bytes = static_cast<size_t>(layout.Bytes());
  cudaError_t error = cudaSuccess;
  for (int i = 0; i < copies && error == cudaSuccess; ++i) {
    auto rows = AllocateDeviceArray<Bf16>(static_cast<size_t>(elements), "weights by rows");
    if (!rows.ok()) return rows.status();
    auto packed = AllocateDeviceArray<uint8_t>(bytes, "weights");
    if (!packed.ok()) return packed.status();
    error = LaunchFill(InputKind::kNormal, static_cast<uint64_t>(i), 0.02f, elements, rows->get(),
                       nullptr);
    if (error == cudaSuccess) error = cudaMemsetAsync(packed->get(), 0, bytes, nullptr);
    if (error == cudaSuccess) {
      error = LaunchPackRows(rows->get(), 0, layout.rows, layout, packed->get(), nullptr);
    }
    weights->rows_.push_back(*std::move(rows));
    weights->packed_.push_back(*std::move(packed));
  }
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return FromCuda(error, "filling weights");
  return weights;
}

int ColdWeights::CopiesFor(const PackedLayout& layout) {
  constexpr int64_t kBytes = 500000000;
  return static_cast<int>(std::max<int64_t>(2, (kBytes + layout.Bytes() - 1) / layout.Bytes()));
}

}  // namespace isobit::cuda
