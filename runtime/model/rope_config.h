#ifndef ISOBIT_RUNTIME_MODEL_ROPE_CONFIG_H_
#define ISOBIT_RUNTIME_MODEL_ROPE_CONFIG_H_

#include "runtime/model/config.h"
#include "runtime/model/config_reader.h"

namespace isobit {

// The rotation of a model: base, scaling, and divisors that GGUF files have as a tensor. Where a
// scheme depends on the length of the text, the context length is split in two, each with its own
// rotation. Errors are left
// with the reader; schemes that are not supported are refused by name.
void ReadRotary(ConfigReader& in, ModelConfig& config);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_ROPE_CONFIG_H_
