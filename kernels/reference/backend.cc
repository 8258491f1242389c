#include "kernels/reference/backend.h"

#include <algorithm>
#include <cstring>

#include "kernels/backends.h"
#include "kernels/host.h"
#include "kernels/shapes.h"

namespace isobit {
namespace reference {

DeviceInfo ReferenceBackend::Info() const {
  const HostLimits host = ReadHostLimits();
  DeviceInfo info;
  info.kind = "reference";
  info.name = host.processor;
  info.instructions = "scalar";
  info.threads = 1;
  info.memory_bytes = host.memory_bytes;
  info.available_bytes = host.available_bytes;
  return info;
}

absl::Status ReferenceBackend::CheckModel(const ModelShape& shape) const {
  return CheckModelShape(shape);
}

absl::StatusOr<std::unique_ptr<Buffer>> ReferenceBackend::Allocate(size_t bytes) {
  return AllocateHostBuffer(bytes);
}

absl::StatusOr<std::unique_ptr<Weight>> ReferenceBackend::LoadWeight(
    std::span<const MatrixSource> parts, WeightLayout layout) {
  absl::StatusOr<MatrixShape> shape = CheckMatrixParts(parts, layout);
  if (!shape.ok()) return shape.status();
  absl::StatusOr<std::unique_ptr<Buffer>> memory =
      AllocateHostBuffer(shape->rows * shape->cols * sizeof(Bf16));
  if (!memory.ok()) return memory.status();
  auto weight =
      std::make_unique<ReferenceWeight>(shape->rows, shape->cols, layout, *std::move(memory));
  int64_t first_row = 0;
  for (const MatrixSource& part : parts) {
    for (int64_t begin = 0; begin < part.rows; begin += kWeightBlockRows) {
      part.read(begin, std::min(begin + kWeightBlockRows, part.rows),
                weight->Row(first_row + begin));
    }
    first_row += part.rows;
  }
  return weight;
}

absl::StatusOr<std::unique_ptr<KvCache>> ReferenceBackend::CreateKvCache(
    const KvCacheShape& shape) {
  absl::StatusOr<int64_t> bytes = CheckKvCacheShape(shape);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<std::unique_ptr<Buffer>> memory = AllocateHostBuffer(*bytes);
  if (!memory.ok()) return memory.status();
  return std::make_unique<ReferenceKvCache>(shape, *std::move(memory));
}

void ReferenceBackend::FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) {
  const auto& kv = static_cast<ReferenceKvCache&>(cache);
  const KvCacheShape& shape = kv.shape();
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (int32_t page : pages) {
      // A page of one layer is contiguous.
      const int64_t elements = int64_t{shape.kv_heads} * shape.page_tokens * shape.head_dim;
      std::fill_n(kv.Key(layer, page, 0, 0), elements, value);
      std::fill_n(kv.Value(layer, page, 0, 0), elements, value);
    }
  }
}

void ReferenceBackend::Upload(const void* from, size_t bytes, void* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void ReferenceBackend::Download(const void* from, size_t bytes, void* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace reference

std::unique_ptr<Backend> CreateReferenceBackend() {
  return std::make_unique<reference::ReferenceBackend>();
}

}  // namespace isobit
