#ifndef ISOBIT_RUNTIME_MODEL_SAFETENSORS_H_
#define ISOBIT_RUNTIME_MODEL_SAFETENSORS_H_

// safetensors files, read through a memory map.
//
// Format: https://github.com/huggingface/safetensors
//   header length (8 bytes, little-endian) | header (JSON) | data
// The header maps each tensor's name to dtype, shape and data_offsets [begin, end) in the data.
//
// Nothing in a file is believed: the header's length is checked before anything is read, and every
// shape, length and offset against the data. Tensors must cover the data without gap or overlap, as
// the format demands.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/memory_map.h"
#include "runtime/model/stored_tensor.h"
#include "runtime/model/tensor_files.h"

namespace isobit {

// Thread-safe after opening. Views that it hands out live as long as the object.
class SafetensorsFile {
 public:
  // Errors name the path, what is wrong, its value and the limit: those of MemoryMap::Open;
  // InvalidArgument (not such a file, or one that lies); DataLoss (it ends before what its header
  // promises); Unimplemented (an element type that we don't know).
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);
  // The same over borrowed bytes, which must outlive the object.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> FromMemory(
      std::span<const std::byte> bytes, std::string name);

  const std::string& path() const { return path_; }
  std::span<const StoredTensor> tensors() const { return tensors_; }  // by place in the data
  void Release(const StoredTensor& tensor) const;

 private:
  SafetensorsFile() = default;
  absl::Status Parse(std::span<const std::byte> file);

  std::string path_;
  std::unique_ptr<MemoryMap> map_;  // null: FromMemory
  std::vector<std::unique_ptr<const std::string>> names_;
  std::vector<StoredTensor> tensors_;
};

// The weights of a Hugging Face folder: model.safetensors, or the files that
// model.safetensors.index.json names.
class SafetensorsFolder : public TensorFiles<SafetensorsFile> {
 public:
  // InvalidArgument also for an index that does not agree with its files, in either direction.
  static absl::StatusOr<std::unique_ptr<SafetensorsFolder>> Open(const std::string& folder);

  const std::string& path() const override { return path_; }

 private:
  explicit SafetensorsFolder(std::string path) : path_(std::move(path)) {}
  absl::Status OpenIndex(const std::string& index_path);
  absl::Status OpenFile(const std::string& file_path);

  std::string path_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_SAFETENSORS_H_
