#ifndef ISOBIT_TESTS_RUNTIME_MODEL_GGUF_BUILDER_H_
#define ISOBIT_TESTS_RUNTIME_MODEL_GGUF_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/gguf.h"

namespace isobit {

// Writes small GGUF files for tests, field by field, so that any of them can lie.
class GgufBuilder {
 public:
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  int64_t alignment = 32;              // of the data section; does not write general.alignment
  int64_t tensor_count_override = -1;  // counts that the header claims, if >= 0
  int64_t field_count_override = -1;

  template <typename T>
  static std::string Raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string Str(std::string_view text) {
    return Raw<uint64_t>(text.size()) + std::string(text);
  }
  static std::string Type(GgufType type) { return Raw(static_cast<uint32_t>(type)); }

  // A field with its value's bytes as given.
  GgufBuilder& Field(std::string_view key, GgufType type, const std::string& value) {
    fields_ += Str(key) + Type(type) + value;
    ++field_count_;
    return *this;
  }
  GgufBuilder& U32(std::string_view key, uint32_t value) {
    return Field(key, GgufType::kUint32, Raw(value));
  }
  GgufBuilder& Bool(std::string_view key, bool value) {
    return Field(key, GgufType::kBool, Raw(static_cast<uint8_t>(value)));
  }
  GgufBuilder& Text(std::string_view key, std::string_view value) {
    return Field(key, GgufType::kString, Str(value));
  }
  GgufBuilder& Texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = Type(GgufType::kString) + Raw<uint64_t>(values.size());
    for (const std::string& value : values) bytes += Str(value);
    return Field(key, GgufType::kArray, bytes);
  }
  GgufBuilder& Ints(std::string_view key, const std::vector<int32_t>& values) {
    std::string bytes = Type(GgufType::kInt32) + Raw<uint64_t>(values.size());
    for (const int32_t value : values) bytes += Raw(value);
    return Field(key, GgufType::kArray, bytes);
  }
  GgufBuilder& Floats(std::string_view key, const std::vector<float>& values) {
    std::string bytes = Type(GgufType::kFloat32) + Raw<uint64_t>(values.size());
    for (const float value : values) bytes += Raw(value);
    return Field(key, GgufType::kArray, bytes);
  }

  // `dims` innermost first, as in the file. The data goes to `offset` of the data section.
  GgufBuilder& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      uint64_t offset, const std::string& data) {
    infos_ += Str(name) + Raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) infos_ += Raw(dim);
    infos_ += Raw(type) + Raw(offset);
    if (data_.size() < offset + data.size()) data_.resize(offset + data.size());
    data_.replace(offset, data.size(), data);
    ++tensor_count_;
    return *this;
  }

  std::string Build() const {
    const int64_t tensors = tensor_count_override >= 0 ? tensor_count_override : tensor_count_;
    const int64_t fields = field_count_override >= 0 ? field_count_override : field_count_;
    std::string bytes = Raw(magic) + Raw(version) + Raw(tensors) + Raw(fields) + fields_ + infos_;
    if (tensor_count_ > 0) {
      while (bytes.size() % static_cast<size_t>(alignment) != 0) bytes += '\0';
    }
    return bytes + data_;
  }

 private:
  int64_t field_count_ = 0;
  int64_t tensor_count_ = 0;
  std::string fields_;
  std::string infos_;
  std::string data_;
};

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_MODEL_GGUF_BUILDER_H_
