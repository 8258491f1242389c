// Internal to pretokenizer.cc: the expressions that most models split by, as functions. They do
// what the interpreter of split_pattern.h does with the expression, several times faster.
#ifndef ISOBIT_RUNTIME_TEXT_PRETOKENIZER_RULES_H_
#define ISOBIT_RUNTIME_TEXT_PRETOKENIZER_RULES_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/text/split_pattern.h"

namespace isobit::pretokenizer_internal {

using Chars = std::span<const ClassedChar>;
// Length of the first piece of `chars`, which is not empty; 1 to chars.size(). All of a text is
// matched by these expressions.
using Rule = size_t (*)(Chars chars);

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
size_t Gpt2(Chars chars);

inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
size_t Llama3(Chars chars);

inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
size_t Qwen2(Chars chars);

// The function for an expression, or null.
Rule RuleFor(std::string_view pattern);

}  // namespace isobit::pretokenizer_internal

#endif  // ISOBIT_RUNTIME_TEXT_PRETOKENIZER_RULES_H_
