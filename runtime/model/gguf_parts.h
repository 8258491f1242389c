#ifndef ISOBIT_RUNTIME_MODEL_GGUF_PARTS_H_
#define ISOBIT_RUNTIME_MODEL_GGUF_PARTS_H_

// A GGUF model in one file or in several (NAME-00001-of-00003.gguf, ...): the first has the
// metadata, each has a share of the tensors.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/model/gguf.h"
#include "runtime/model/tensor_files.h"

namespace isobit {

class GgufParts : public TensorFiles<GgufFile> {
 public:
  // `path` is the model's only or first file. Errors as those of GgufFile::Open; InvalidArgument if
  // the parts contradict each other or another part than the first is named.
  static absl::StatusOr<std::unique_ptr<GgufParts>> Open(const std::string& path);

  const GgufFile& metadata() const { return file(0); }
  const std::string& path() const override { return metadata().path(); }

 private:
  GgufParts() = default;
  absl::Status CheckTensorCount() const;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_GGUF_PARTS_H_
