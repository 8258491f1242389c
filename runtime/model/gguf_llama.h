#ifndef ISOBIT_RUNTIME_MODEL_GGUF_LLAMA_H_
#define ISOBIT_RUNTIME_MODEL_GGUF_LLAMA_H_

// The llama architecture in GGUF files: metadata keys, tensor names and row order.

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/model/checkpoint.h"
#include "runtime/model/gguf.h"

namespace isobit {

// Unimplemented names what the file asks for and is not supported: another architecture, rope
// scaling, experts, biases, an element type.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGgufLlama(std::unique_ptr<GgufFile> file);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_GGUF_LLAMA_H_
