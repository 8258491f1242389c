// Internal to tokenizer.cc and tokenizer_build.cc: what a tokenizer is made of.
#ifndef ISOBIT_RUNTIME_TEXT_TOKENIZER_IMPL_H_
#define ISOBIT_RUNTIME_TEXT_TOKENIZER_IMPL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "runtime/model/error_text.h"
#include "runtime/text/bpe.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/special_tokens.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

struct Tokenizer::Impl {
  explicit Impl(const PreTokenizer& pre) : pre_tokenizer(pre) {}

  std::string_view Piece(size_t id) const {
    return std::string_view(pieces).substr(begins[id], begins[id + 1] - begins[id]);
  }
  // The token made by merging that is exactly `bytes`; -1 if there is none.
  int32_t FindWord(std::string_view bytes) const {
    const auto found = words.find(Absl(bytes));
    return found == words.end() ? -1 : found->second;
  }
  // Appends the ids of text without special tokens.
  absl::Status EncodePlain(std::string_view text, std::vector<int32_t>* ids) const;

  PreTokenizer pre_tokenizer;
  std::string pieces;          // raw bytes of all tokens, end to end
  std::vector<size_t> begins;  // of each piece, and the end of the last
  std::vector<TokenKind> kinds;
  absl::flat_hash_map<absl::string_view, int32_t> words;  // keys lie in `pieces`
  std::array<int32_t, 256> byte_ids{};                    // -1: no token
  std::vector<uint8_t> missing_bytes;
  Bpe bpe;
  SpecialTokens special;
  std::optional<int32_t> bos_id, eos_id;
  std::vector<int32_t> stop_ids;
  bool add_bos = false, add_eos = false;
  std::optional<std::string> chat_template;
  isobit::Digest fingerprint;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_TOKENIZER_IMPL_H_
