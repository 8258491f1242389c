// The safetensors header on any bytes, and widening of what it lets through.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "runtime/model/safetensors.h"
#include "runtime/model/widen.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isobit;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto opened = SafetensorsFile::FromMemory(bytes, "fuzz.safetensors");
  if (!opened.ok()) {
    if (opened.status().message().empty()) std::abort();
    return 0;
  }
  size_t total = 0;
  for (const StoredTensor& tensor : (*opened)->tensors()) {
    total += tensor.bytes;
    if (PrintShape(tensor.shape).empty() || tensor.name.size() > size) std::abort();
    if (tensor.bytes == 0) continue;
    // First and last byte: the sanitizer checks that they lie in the input.
    const volatile std::byte first = tensor.data[0], last = tensor.data[tensor.bytes - 1];
    (void)first, (void)last;
    if (!CheckWidenable(tensor.type).ok()) continue;
    const int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    std::vector<Bf16> row(static_cast<size_t>(columns));
    WidenRow(tensor.type, tensor.data, columns, row.data());
    (*opened)->Release(tensor);
  }
  if (total > size) std::abort();  // tensors do not overlap
  return 0;
}
