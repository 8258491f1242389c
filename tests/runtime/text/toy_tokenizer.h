#ifndef ISOBIT_TESTS_RUNTIME_TEXT_TOY_TOKENIZER_H_
#define ISOBIT_TESTS_RUNTIME_TEXT_TOY_TOKENIZER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/byte_alphabet.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/utf8.h"

namespace isobit {

// `bytes` written in the byte alphabet.
inline std::string InByteAlphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) AppendUtf8(ByteAlphabetChar(static_cast<unsigned char>(c)), &text);
  return text;
}

// A small tokenizer to change and build: ids 0..255 are the bytes, then whatever is added.
struct ToyTokenizer {
  ToyTokenizer() {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      Token(InByteAlphabet(std::string_view(&c, 1)));
    }
  }

  int32_t Token(std::string text, TokenKind kind = TokenKind::kNormal) {
    tokens.push_back(std::move(text));
    kinds.push_back(kind);
    return static_cast<int32_t>(tokens.size()) - 1;
  }
  // The token and the merge that makes it.
  int32_t Merge(std::string_view left, std::string_view right) {
    merges.push_back(InByteAlphabet(left) + " " + InByteAlphabet(right));
    return Token(InByteAlphabet(std::string(left) + std::string(right)));
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> Build() {
    tables.tokens.assign(tokens.begin(), tokens.end());
    tables.kinds = kinds;
    const std::vector<std::string_view> views(merges.begin(), merges.end());
    absl::StatusOr<std::vector<TokenMerge>> pairs = SplitMerges(views);
    if (!pairs.ok()) return pairs.status();
    tables.merges = *std::move(pairs);
    if (tables.pre_tokenizer.empty()) tables.pre_tokenizer = "gpt-2";
    return Tokenizer::Create(tables);
  }

  std::vector<std::string> tokens;
  std::vector<TokenKind> kinds;
  std::vector<std::string> merges;
  TokenizerTables tables;  // tokens, kinds and merges are filled by Build
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_TEXT_TOY_TOKENIZER_H_
