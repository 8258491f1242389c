// Widening of any bytes as any element type: inside its buffers, and one rounding away from
// dequantising.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/numerics/bf16.h"
#include "runtime/model/widen.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isobit;
  if (size == 0) return 0;
  const TensorTypeInfo* info = FindTensorType(data[0] % 40);
  if (info == nullptr || !CheckWidenable(info->type).ok()) return 0;
  const int64_t blocks = static_cast<int64_t>(size - 1) / info->block_bytes;
  const int64_t n = blocks * info->block_elements;
  // Heap blocks of exactly the right sizes, the source at an odd address now and then.
  const size_t shift = data[0] / 40 % 2;
  const auto bytes = static_cast<size_t>(blocks * info->block_bytes);
  std::vector<std::byte> stored(bytes + shift);
  if (bytes > 0) std::memcpy(stored.data() + shift, data + 1, bytes);
  std::vector<float> exact(static_cast<size_t>(n));
  std::vector<Bf16> widened(static_cast<size_t>(n));
  DequantizeRow(info->type, stored.data() + shift, n, exact.data());
  WidenRow(info->type, stored.data() + shift, n, widened.data());
  for (size_t i = 0; i < exact.size(); ++i) {
    if (widened[i] != RoundToBf16(exact[i])) std::abort();
  }
  return 0;
}
