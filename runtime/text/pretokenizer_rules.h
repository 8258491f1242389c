// Internal to pretokenizer.cc: the regular expressions of published pre-tokenizers as functions.
#ifndef ISOBIT_RUNTIME_TEXT_PRETOKENIZER_RULES_H_
#define ISOBIT_RUNTIME_TEXT_PRETOKENIZER_RULES_H_

#include <cstddef>
#include <span>

#include "runtime/text/pretokenizer.h"

namespace isobit::pretokenizer_internal {

using Chars = std::span<const PreTokenizer::Char>;

// Each returns the length of the first piece that its expression splits `chars` into: its first
// match if that is at the beginning, otherwise what lies in front of the first match.

//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t Gpt2(Chars chars);

//   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//   |\s*[\r\n]+|\s+(?!\S)|\s+
size_t Llama3(Chars chars);

// As Llama3, with \p{N} in place of \p{N}{1,3}.
size_t Qwen2(Chars chars);

//   \p{N}
size_t EachNumber(Chars chars);

//   \p{N}+
size_t NumberRun(Chars chars);

//   [\p{P}\$\+<=>\^~\|]+
size_t PunctuationRun(Chars chars);

//   [0-9][0-9][0-9]
size_t ThreeDigits(Chars chars);

}  // namespace isobit::pretokenizer_internal

#endif  // ISOBIT_RUNTIME_TEXT_PRETOKENIZER_RULES_H_
