#ifndef ISOBIT_RUNTIME_MODEL_CHECKPOINT_H_
#define ISOBIT_RUNTIME_MODEL_CHECKPOINT_H_

// A model on disk, whatever its format: tensors by role in Hugging Face's row order, weights
// widened to bf16. The same model gives the same values from every format.
//
// Thread safety: const methods and the sources that they return may be used from any thread.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"
#include "runtime/model/config.h"
#include "runtime/model/generation_defaults.h"
#include "runtime/model/tensor_role.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // Opens a GGUF file (the first, if it is split) or a Hugging Face folder and checks that its
  // configuration and its tensors fit each other. NotFound, DataLoss, InvalidArgument (files that
  // lie or contradict each other) and Unimplemented (an architecture, type or feature that is not
  // supported, by name) name the file.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);

  virtual const ModelConfig& config() const = 0;
  virtual GenerationDefaults generation_defaults() const { return {}; }
  virtual absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const = 0;

  // A matrix as bf16, or a vector in fp32, of the shape that ShapeOf says. The source must not
  // outlive the checkpoint. REQUIRES: one of RolesOf(config()); `layer` is kNoLayer for roles of
  // the model.
  virtual MatrixSource Matrix(Role role, int64_t layer) const = 0;
  virtual std::vector<float> Vector(Role role, int64_t layer) const = 0;
  // Lets go of memory that holds the tensor, after its last use.
  virtual void Release(Role role, int64_t layer) const = 0;

  // What is in the files, for people: "GGUF v3, 272 tensors: 210 Q4_1, 61 F32, 1 Q8_0; weights
  // widened to bf16".
  virtual std::string Describe() const = 0;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_CHECKPOINT_H_
