#ifndef ISOBIT_TESTS_RUNTIME_MODEL_WHOLE_MODEL_H_
#define ISOBIT_TESTS_RUNTIME_MODEL_WHOLE_MODEL_H_

#include <cstdint>
#include <string>

namespace isobit {

// The token that ends a turn, after those of the ASCII characters.
inline constexpr int32_t kWholeModelEnd = 128;

// Writes the model `name` of golden/model/families.json as users have one: with its tokenizer, chat
// template and, in the folder, recommended sampling. Returns the path of the GGUF file that is put
// beside the folder's own files.
std::string WriteWholeModel(const std::string& name, const std::string& folder);

// The same tokenizer as a GGUF file that has nothing else.
void WriteVocabulary(const std::string& path);

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_MODEL_WHOLE_MODEL_H_
