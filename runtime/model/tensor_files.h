#ifndef ISOBIT_RUNTIME_MODEL_TENSOR_FILES_H_
#define ISOBIT_RUNTIME_MODEL_TENSOR_FILES_H_

// The tensors of a model that lie in one file or in several of a format.

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/model/stored_tensor.h"

namespace isobit {

// A File has path(), tensors() and Release(tensor); its tensors stay where they are.
template <typename File>
class TensorFiles : public TensorStore {
 public:
  size_t files() const { return files_.size(); }

  const StoredTensor* FindTensor(std::string_view name) const override {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : found->second.tensor;
  }

  std::vector<const StoredTensor*> AllTensors() const override {
    std::vector<const StoredTensor*> all;
    for (const auto& file : files_) {
      for (const StoredTensor& tensor : file->tensors()) all.push_back(&tensor);
    }
    return all;
  }

  void Release(const StoredTensor& tensor) const override {
    if (const File* file = FileOf(tensor.name)) file->Release(tensor);
  }

 protected:
  // InvalidArgument if it has a tensor that is also in a file before it; the store is of no use
  // then.
  absl::Status Add(std::unique_ptr<File> opened) {
    const File* file = files_.emplace_back(std::move(opened)).get();
    for (const StoredTensor& tensor : file->tensors()) {
      const auto [place, added] = index_.insert({tensor.name, {file, &tensor}});
      if (!added) {
        return absl::InvalidArgumentError(absl::StrCat(file->path(), ": tensor ",
                                                       Quoted(tensor.name), " is also in ",
                                                       place->second.file->path()));
      }
    }
    return absl::OkStatus();
  }

  // In the order in which they were added.
  const File& file(size_t i) const { return *files_[i]; }
  // The one that has the tensor; null if none has.
  const File* FileOf(std::string_view tensor) const {
    const auto found = index_.find(tensor);
    return found == index_.end() ? nullptr : found->second.file;
  }

 private:
  struct Place {
    const File* file;
    const StoredTensor* tensor;
  };

  std::vector<std::unique_ptr<File>> files_;
  absl::flat_hash_map<std::string_view, Place> index_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_TENSOR_FILES_H_
