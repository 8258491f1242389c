// Internal to tokenizer.cc, tokenizer_encode.cc and tokenizer_build.cc: what a tokenizer is made
// of.
#ifndef ISOBIT_RUNTIME_TEXT_TOKENIZER_IMPL_H_
#define ISOBIT_RUNTIME_TEXT_TOKENIZER_IMPL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "runtime/model/error_text.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/bpe.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/tokenizer.h"

namespace isobit {

struct Tokenizer::Impl {
  using Words = std::vector<std::pair<size_t, size_t>>;

  std::string_view Piece(size_t id) const {
    return std::string_view(pieces).substr(begins[id], begins[id + 1] - begins[id]);
  }
  // The token made by merging that is exactly `text`, bytes or characters by the alphabet; -1 if
  // there is none.
  int32_t FindWord(std::string_view text) const {
    const auto found = words.find(Absl(text));
    return found == words.end() ? -1 : found->second;
  }
  size_t vocab_size() const { return kinds.size(); }

  // Appends the ids of what lies between added tokens that are looked for in raw text.
  absl::Status EncodeRaw(std::string_view text, bool at_start, bool with_special,
                         std::vector<int32_t>* ids) const;
  // Appends the ids of normalized text without added tokens.
  absl::Status EncodePlain(std::string_view text, bool at_start, std::vector<int32_t>* ids) const;
  void EncodeWords(std::string_view text, const Words& words_at, std::vector<int32_t>* ids) const;
  // What a word is before merging. Ids at or above vocab_size() stand for characters that are no
  // tokens but part of one; see `virtual_chars`.
  void StartWord(std::string_view word, std::vector<int32_t>* symbols) const;
  void AddCharacter(std::string_view character, std::vector<int32_t>* symbols) const;
  // Appends the bytes of what is no token, or the unknown token.
  void AddFallback(std::string_view character, std::vector<int32_t>* ids) const;
  // The words of text that no pre-tokenizer split; see `splits_at_marker`.
  void SplitAtMarker(std::string_view text, Words* out) const;

  PreTokenizer pre_tokenizer;
  std::string pre_tokenizer_name;
  Normalizer normalizer, rewriter;
  bool ignores_merges = false;
  bool byte_alphabet = true;

  std::string pieces;          // raw bytes of all tokens, end to end
  std::vector<size_t> begins;  // of each piece, and the end of the last
  std::vector<TokenKind> kinds;
  std::string texts;  // of characters: what words of tokens are, end to end; of bytes: empty
  absl::flat_hash_map<absl::string_view, int32_t> words;  // keys lie in `pieces` or `texts`
  std::array<int32_t, 256> byte_ids{};                    // -1: no token
  std::vector<uint8_t> missing_bytes;
  absl::flat_hash_map<char32_t, int32_t> virtual_ids;  // of SentencePiece: characters that are no
  std::vector<std::string> virtual_chars;              // token themselves, and the way back
  bool byte_fallback = false, fuse_unknown = false;
  std::optional<int32_t> unknown_id;
  Bpe bpe;
  // Whether no token holds the space marker behind anything else, so that text without a
  // pre-tokenizer may be cut in front of each marker without changing what merges.
  bool splits_at_marker = false;

  AddedTokens raw_added, normalized_added;
  bool strips_first_space = false;
  std::optional<int32_t> bos_id, eos_id;
  std::vector<int32_t> prefix_ids, suffix_ids;  // BOS and EOS included
  std::vector<int32_t> stop_ids;
  bool add_bos = false;
  std::optional<std::string> chat_template;
  isobit::Digest fingerprint;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_TOKENIZER_IMPL_H_
