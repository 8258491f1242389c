#ifndef ISOBIT_TESTS_RUNTIME_MODEL_FAMILY_MODELS_H_
#define ISOBIT_TESTS_RUNTIME_MODEL_FAMILY_MODELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "runtime/model/model.h"

namespace isobit {

// With one thread.
std::unique_ptr<Backend> CpuBackend();

// A model that family_files.h wrote, for texts of up to 192 tokens, with a tokenizer of fewer
// tokens than its vocabulary has. Null, and a failure of the test, if it can't be loaded.
std::unique_ptr<Model> LoadFamily(const std::string& path, std::unique_ptr<Backend> backend);

// fp32 logits [ids][vocab] of one sequence, prefilled in chunks of `chunk` tokens.
std::vector<float> Logits(const Model& model, const std::vector<int32_t>& ids,
                          size_t chunk = SIZE_MAX);

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_MODEL_FAMILY_MODELS_H_
