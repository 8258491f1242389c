#ifndef ISOBIT_RUNTIME_MODEL_CHECKPOINT_H_
#define ISOBIT_RUNTIME_MODEL_CHECKPOINT_H_

// A model on disk, whatever its format: Hugging Face's tensor names and row order, weights widened
// to bf16. The same model gives the same values from every format.
//
// Thread safety: const methods and the sources that they return may be used from any thread.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "runtime/model/config.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // Opens a GGUF file. NotFound, DataLoss, InvalidArgument (a file that lies) and Unimplemented (an
  // architecture, type or feature that is not supported, by name) name the file.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);

  virtual const ModelConfig& config() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const = 0;

  // The matrix `name` as bf16, e.g. "model.layers.0.self_attn.q_proj.weight". The source must not
  // outlive the checkpoint. NotFound if there is none, InvalidArgument if its shape is another.
  virtual absl::StatusOr<MatrixSource> Matrix(std::string_view name, int64_t rows,
                                              int64_t cols) const = 0;
  virtual absl::StatusOr<std::vector<Bf16>> Vector(std::string_view name, int64_t size) const = 0;

  // Lets go of memory that holds the tensor, after its last use.
  virtual void Release(std::string_view name) const = 0;

  // What is in the file, for people: "272 tensors: 210 Q4_1, 61 F32, 1 Q8_0, widened to bf16".
  virtual std::string Describe() const = 0;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_CHECKPOINT_H_
