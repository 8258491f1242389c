#ifndef ISOBIT_RUNTIME_MODEL_GGUF_PARTS_H_
#define ISOBIT_RUNTIME_MODEL_GGUF_PARTS_H_

// A GGUF model in one file or in several (NAME-00001-of-00003.gguf, ...): the first has the
// metadata, each has a share of the tensors.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/model/gguf.h"
#include "runtime/model/stored_tensor.h"

namespace isobit {

class GgufParts : public TensorStore {
 public:
  // `path` is the model's only or first file. Errors as those of GgufFile::Open; InvalidArgument if
  // the parts contradict each other or another part than the first is named.
  static absl::StatusOr<std::unique_ptr<GgufParts>> Open(const std::string& path);

  const GgufFile& metadata() const { return *parts_[0]; }
  size_t parts() const { return parts_.size(); }

  const std::string& path() const override { return parts_[0]->path(); }
  const StoredTensor* FindTensor(std::string_view name) const override;
  std::vector<const StoredTensor*> AllTensors() const override;
  void Release(const StoredTensor& tensor) const override;

 private:
  struct Place {
    size_t part;
    const StoredTensor* tensor;
  };

  GgufParts() = default;
  absl::Status OpenOthers();
  absl::Status Index();

  std::vector<std::unique_ptr<GgufFile>> parts_;
  absl::flat_hash_map<std::string_view, Place> index_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_GGUF_PARTS_H_
