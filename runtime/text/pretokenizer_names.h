// Internal to pretokenizer.cc: the pre-tokenizers that GGUF files name.
#ifndef ISOBIT_RUNTIME_TEXT_PRETOKENIZER_NAMES_H_
#define ISOBIT_RUNTIME_TEXT_PRETOKENIZER_NAMES_H_

#include <span>
#include <string_view>

namespace isobit {

struct NamedPreTokenizer {
  std::string_view name;                       // value of tokenizer.ggml.pre
  std::span<const std::string_view> patterns;  // each isolates its matches
  bool normalizes = false;                     // to NFC, which files don't say
  bool ignores_merges = false;
};

// Of names with equal content the most common one stands first.
std::span<const NamedPreTokenizer> NamedPreTokenizers();

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_PRETOKENIZER_NAMES_H_
