// Patterns as in the tokenizer.json of the models that the names stand for; where llama.cpp, which
// gives the names, splits otherwise to get round limits of its own, the model's file is followed.
#include "runtime/text/pretokenizer_names.h"

#include "runtime/text/pretokenizer_rules.h"

namespace isobit {
namespace {

using pretokenizer_internal::kGpt2Pattern;
using pretokenizer_internal::kLlama3Pattern;
using pretokenizer_internal::kQwen2Pattern;
using Patterns = const std::string_view[];

constexpr std::string_view kEachNumber = R"(\p{N})";
constexpr std::string_view kUpToThreeNumbers = R"(\p{N}{1,3})";
constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";
constexpr std::string_view kLineBreak = "[\r\n]";
constexpr std::string_view kCjkRun = "[一-龥ࠀ-一가-퟿]+";

constexpr Patterns kGpt2 = {kGpt2Pattern};
constexpr Patterns kLlama3 = {kLlama3Pattern};
constexpr Patterns kQwen2 = {kQwen2Pattern};
constexpr Patterns kDigitsGpt2 = {kEachNumber, kGpt2Pattern};
// As llama.cpp defines the name "default".
constexpr Patterns kDefault = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", kThreeDigits};
constexpr Patterns kFalcon = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, kThreeDigits};
constexpr Patterns kQwen35 = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Patterns kDeepSeekLlm = {
    kLineBreak,
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-"
    "ᲺᲽ-"
    "Ჿᴀ-"
    "ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅ"
    "Ὀ-Ὅὐ-ὗὙὛὝὟ-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-"
    "ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮ"
    "ⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-"
    "𐲲𐳀-"
    "𐳲𑢠-"
    "𑣟𞤀-𞥃]+",
    "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "\\s+$",
    kCjkRun,
    R"(\p{N}+)"};
constexpr Patterns kDeepSeekCoder = {kLineBreak, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjkRun,
                                     kEachNumber};
constexpr Patterns kDeepSeekV3 = {
    kUpToThreeNumbers, "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};
constexpr Patterns kTekken = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Patterns kO200k = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Patterns kBailingMoe = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr Patterns kSeedCoder = {
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};
// Tokens hold line feeds only among themselves.
constexpr Patterns kGemma4 = {R"([^\n]+|[\n]+)"};

constexpr NamedPreTokenizer kNamed[] = {
    {"default", kDefault},
    {"gpt-2", kGpt2},
    {"llama-bpe", kLlama3, false, true},
    {"qwen2", kQwen2, true, false},
    {"smollm", kDigitsGpt2},
    {"gpt-4o", kO200k},
    {"tekken", kTekken, false, true},
    {"deepseek-v3", kDeepSeekV3},
    {"deepseek-llm", kDeepSeekLlm},
    {"deepseek-coder", kDeepSeekCoder},
    {"falcon", kFalcon},
    {"qwen35", kQwen35},
    {"gemma4", kGemma4},
    {"chatglm-bpe", kLlama3},
    {"stablelm2", kQwen2},
    {"bailingmoe", kBailingMoe},
    {"seed-coder", kSeedCoder},
    // The same under other names.
    {"llama3", kLlama3, false, true},
    {"llama-v3", kLlama3, false, true},
    {"falcon3", kLlama3, false, true},
    {"pixtral", kLlama3, false, true},
    {"lfm2", kLlama3, false, true},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"glm4", kLlama3},
    {"deepseek-r1-qwen", kQwen2, true, false},
    {"hunyuan", kQwen2},
    {"megrez", kQwen2, true, false},
    {"starcoder", kDigitsGpt2},
    {"refact", kDigitsGpt2},
    {"command-r", kDigitsGpt2, true, false},
    {"codeshell", kDigitsGpt2},
    {"exaone", kDigitsGpt2},
    {"minerva-7b", kDigitsGpt2},
    {"olmo", kGpt2, true, false},
    {"mpt", kGpt2, true, false},
    {"phi-2", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"granite-docling", kGpt2},
    {"llama4", kO200k},
    {"hunyuan-dense", kDeepSeekV3},
};

}  // namespace

std::span<const NamedPreTokenizer> NamedPreTokenizers() { return kNamed; }

}  // namespace isobit
