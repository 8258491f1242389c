#include "runtime/text/pretokenizer.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/pretokenizer_rules.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

namespace rules = pretokenizer_internal;

using Rule = PreTokenizer::Rule;
using Chars = rules::Chars;

struct Entry {
  std::string_view name;
  std::span<const Rule> rules;
  bool normalizes;
  bool ignores_merges;
};

constexpr Rule kGpt2[] = {rules::Gpt2};
constexpr Rule kSmollm[] = {rules::EachNumber, rules::Gpt2};
constexpr Rule kQwen2[] = {rules::Qwen2};
constexpr Rule kLlamaBpe[] = {rules::Llama3};
// As llama.cpp defines the name "default".
constexpr Rule kDefault[] = {rules::PunctuationRun, rules::Gpt2, rules::NumberRun,
                             rules::ThreeDigits};

constexpr Entry kEntries[] = {
    {"default", kDefault, false, false},   {"gpt-2", kGpt2, false, false},
    {"llama-bpe", kLlamaBpe, false, true}, {"qwen2", kQwen2, true, false},
    {"smollm", kSmollm, false, false},
};

// Splits `chars` by the first rule and each piece by those that follow.
void Apply(std::span<const Rule> remaining, Chars chars, size_t* at, std::vector<size_t>* ends) {
  if (remaining.empty()) {
    for (const PreTokenizer::Char& c : chars) *at += Utf8Length(c.point);
    ends->push_back(*at);
    return;
  }
  while (!chars.empty()) {
    const size_t length = remaining[0](chars);
    Apply(remaining.subspan(1), chars.first(length), at, ends);
    chars = chars.subspan(length);
  }
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::ForName(std::string_view name) {
  std::string known;
  for (const Entry& entry : kEntries) {
    if (entry.name == name) {
      return PreTokenizer(entry.name, entry.rules, entry.normalizes, entry.ignores_merges);
    }
    absl::StrAppend(&known, known.empty() ? "" : ", ", Absl(entry.name));
  }
  return absl::UnimplementedError(
      absl::StrCat("pre-tokenizer '", Absl(name), "' is not supported (supported: ", known, ")"));
}

void PreTokenizer::Split(std::string_view text, std::vector<size_t>* ends) const {
  std::vector<Char> chars;
  chars.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    chars.push_back({step.point, ClassOf(step.point)});
    at += step.length;
  }
  size_t at = 0;
  Apply(rules_, chars, &at, ends);
}

}  // namespace isobit
