#ifndef ISOBIT_RUNTIME_MODEL_ROPE_CONFIG_H_
#define ISOBIT_RUNTIME_MODEL_ROPE_CONFIG_H_

#include "runtime/model/config.h"
#include "runtime/model/config_reader.h"

namespace isobit {

// The rotation of a model with one table: base, scaling, and divisors that GGUF files have as a
// tensor. Changes the context length where a scheme holds only for a part of it. Errors are left
// with the reader; schemes that are not supported are refused by name.
void ReadRotary(ConfigReader& in, ModelConfig& config);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_ROPE_CONFIG_H_
