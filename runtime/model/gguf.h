// GGUF model files, versions 2 and 3, read through a memory map.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//   header (magic, version, counts) | metadata (key, type, value) | tensor infos | padding | data
//
// Nothing in a file is believed: every count, length, product and offset is checked against the
// size of the file before it is used, and memory allocated while opening is bounded by a small
// multiple of the bytes that the header really occupies.
#ifndef ISOBIT_RUNTIME_MODEL_GGUF_H_
#define ISOBIT_RUNTIME_MODEL_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/model/memory_map.h"
#include "runtime/model/stored_tensor.h"

namespace isobit {

// Types of metadata values, with the numbers of the format.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

std::string_view NameOf(GgufType type);

// One metadata entry, still in the form of the file. Checked when the file was opened, so decoding
// it can not run out of bounds.
struct GgufField {
  std::string_view key;
  GgufType type;
  GgufType element_type;  // of an array; otherwise equal to `type`
  uint64_t count;         // elements of an array; otherwise 1
  const std::byte* data;  // the scalar, or the first element; unaligned, little-endian
};

// The value as a T, which is one of
//   bool, int32_t, uint32_t, int64_t, uint64_t     any stored integer type whose value fits T
//   float, double                                  FLOAT32 or FLOAT64
//   std::string_view, std::vector<std::string_view>
//   std::vector<int32_t>, std::vector<uint32_t>, std::vector<int64_t>, std::vector<float>,
//   std::vector<bool>
// InvalidArgument, without the key, if the value is of another type or does not fit. Strings are
// views into the file; they need not be valid UTF-8.
template <typename T>
absl::StatusOr<T> Decode(const GgufField& field);

using GgufTensor = StoredTensor;  // GGUF itself writes the dimensions reversed

// Thread-safe after opening (all members are const). Views and pointers that it hands out live as
// long as the object.
class GgufFile {
 public:
  // Errors, each naming the path, what is wrong, its value and the limit:
  //   NotFound / PermissionDenied / Unavailable  the file can't be opened or mapped
  //   InvalidArgument   not a GGUF file, or its contents contradict each other or the format
  //   DataLoss          the file ends before what its header promises
  //   Unimplemented     a version, byte order or element type that is not supported
  static absl::StatusOr<std::unique_ptr<GgufFile>> Open(const std::string& path);

  // The same over borrowed bytes, which must outlive the object; `name` stands for the path in
  // errors.
  static absl::StatusOr<std::unique_ptr<GgufFile>> FromMemory(std::span<const std::byte> bytes,
                                                              std::string name);

  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const { return path_; }
  size_t file_bytes() const { return bytes_.size(); }
  uint32_t version() const { return version_; }
  std::span<const GgufField> fields() const { return fields_; }     // in file order
  std::span<const GgufTensor> tensors() const { return tensors_; }  // in file order

  bool Has(std::string_view key) const { return FindField(key) != nullptr; }
  const GgufField* FindField(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;

  // The key's value as Decode gives it; NotFound if the key is missing. Errors name path and key.
  template <typename T>
  absl::StatusOr<T> Get(std::string_view key) const {
    const GgufField* field = FindField(key);
    if (field == nullptr) return ErrorAt(key, absl::NotFoundError("is missing"));
    absl::StatusOr<T> value = Decode<T>(*field);
    if (!value.ok()) return ErrorAt(key, value.status());
    return value;
  }

  // As Get, but a missing key gives `fallback` (a value of the wrong type is still an error).
  template <typename T>
  absl::StatusOr<T> GetOr(std::string_view key, T fallback) const {
    if (!Has(key)) return fallback;
    return Get<T>(key);
  }

  // See TensorStore. No effect on FromMemory.
  void Release(const GgufTensor& tensor) const;

 private:
  GgufFile() = default;
  absl::Status Parse();
  // `error`, with path and key before its text.
  absl::Status ErrorAt(std::string_view key, const absl::Status& error) const;

  std::string path_;
  std::unique_ptr<MemoryMap> map_;  // null: FromMemory
  std::span<const std::byte> bytes_;
  uint32_t version_ = 0;
  std::vector<GgufField> fields_;
  std::vector<GgufTensor> tensors_;
  absl::flat_hash_map<std::string_view, size_t> field_index_;
  absl::flat_hash_map<std::string_view, size_t> tensor_index_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_GGUF_H_
