#ifndef ISOBIT_TESTS_RUNTIME_MODEL_FAMILY_FILES_H_
#define ISOBIT_TESTS_RUNTIME_MODEL_FAMILY_FILES_H_

// The small models of golden/model/families.json as files, with seeded weights that
// golden/model/make_families.py makes too.

#include <functional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/runtime/model/gguf_builder.h"

namespace isobit {

// Name to entry, as the script describes them.
const nlohmann::json& FamilyGoldens();
// All names, or only of what has a GGUF form too.
std::vector<std::string> FamilyGoldenNames(bool with_gguf_only = false);

struct FolderOptions {
  std::string dtype = "BF16";       // or "F32", "F16"
  int shards = 1;                   // more: with an index
  bool only_normal_halves = false;  // what F16 has not, but as a subnormal, is zero
};

// Writes a Hugging Face folder without a tokenizer: config.json and the weights.
void WriteFolder(const nlohmann::json& entry, const std::string& folder,
                 const FolderOptions& options = {});

// The same model as a GGUF file in one or two parts; returns the path of the first. `add` may add
// to the first one's metadata. REQUIRES: the entry has a GGUF form.
std::string WriteGguf(const nlohmann::json& entry, const std::string& stem, int parts = 1,
                      const std::function<void(GgufBuilder&)>& add = {});

void WriteFile(const std::string& path, const std::string& bytes);

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_MODEL_FAMILY_FILES_H_
