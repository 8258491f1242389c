#ifndef ISOBIT_RUNTIME_MODEL_FAMILY_H_
#define ISOBIT_RUNTIME_MODEL_FAMILY_H_

// A family of models: what its files call things, and where it deviates from the plain decoder
// (config.h). Each is one small file in runtime/model/families/.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/config.h"
#include "runtime/model/config_reader.h"
#include "runtime/model/tensor_role.h"

namespace isobit {

struct Family {
  std::string_view name = {};
  std::string_view hugging_face = {};  // model_type in config.json; empty: none
  std::string_view gguf = {};          // general.architecture; empty: none
  // GGUF files have rotary partners side by side: in each head of the query and key rows, dimension
  // i of the first half is row 2 i, of the second half row 2 i + 1. Hugging Face, and so we, have
  // the halves one after the other.
  bool gguf_interleaves_heads = false;
  // Hugging Face's norm weights are w, the norm multiplies by 1 + w (GGUF files store 1 + w).
  bool norms_less_one = false;
  // Names other than the usual ones.
  std::span<const TensorName> tensor_names = {};
  // Fills the configuration; what it can't take it says to the reader.
  void (*read)(ConfigReader& in, ModelConfig& config) = nullptr;
};

// All that are supported.
std::span<const Family* const> AllFamilies();

// Null if there is none of that name in that format.
const Family* FindFamily(bool gguf, std::string_view name);

// "gemma, gemma2, ...": what the format knows, for messages.
std::string FamilyNames(bool gguf);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_FAMILY_H_
