// The GGUF loader, its typed metadata, the tokenizer's tables and widening, on any bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/model/gguf.h"
#include "runtime/model/widen.h"
#include "runtime/text/tokenizer.h"

namespace isobit {
namespace {

// Every way to read a field either gives a value or an error that names the key.
template <typename... T>
void ReadAs(const GgufFile& file, std::string_view key) {
  const auto read = [&](const auto& value) {
    if (!value.ok() && value.status().message().empty()) std::abort();
  };
  (read(file.Get<T>(key)), ...);
}

void WidenFirstRow(const GgufTensor& tensor) {
  const int64_t columns = tensor.shape.back();
  if (columns > 1 << 16 || !CheckWidenable(tensor.type).ok()) return;
  std::vector<Bf16> row(static_cast<size_t>(columns));
  WidenRow(tensor.type, tensor.data, columns, row.data());
}

}  // namespace
}  // namespace isobit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isobit;
  const auto opened = GgufFile::FromMemory(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!opened.ok()) return 0;
  const GgufFile& file = **opened;
  for (const GgufField& field : file.fields()) {
    ReadAs<bool, int32_t, uint64_t, float, double, std::string_view, std::vector<std::string_view>,
           std::vector<int32_t>, std::vector<bool>, std::vector<float>>(file, field.key);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    // First and last byte: the sanitizer checks that they lie in the input.
    const volatile std::byte first = tensor.data[0], last = tensor.data[tensor.bytes - 1];
    (void)first, (void)last;
    WidenFirstRow(tensor);
    file.Release(tensor);
  }
  const auto tokenizer = Tokenizer::FromGguf(file);
  if (tokenizer.ok() && !(*tokenizer)->Encode("Hello, 123 <x>\n").ok()) std::abort();
  return 0;
}
