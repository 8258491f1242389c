#ifndef ISOBIT_RUNTIME_MODEL_TOKENIZER_FILES_H_
#define ISOBIT_RUNTIME_MODEL_TOKENIZER_FILES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

// The tokenizer of a GGUF file, which may hold a vocabulary and nothing else, or of a Hugging Face
// folder: tokenizer.json, and if they are there tokenizer_config.json, chat_template.jinja,
// config.json (size of the vocabulary, ids that end a text) and generation_config.json (more of
// those). Errors name the file.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_TOKENIZER_FILES_H_
