// Byte-level BPE: text to token ids and back, as Hugging Face's tokenizers do it.
//
//   text -> special tokens cut out -> (NFC) -> pre-tokenizer splits into words -> each word's
//   bytes merged pair by pair, lowest rank first -> ids
#ifndef ISOBIT_RUNTIME_TEXT_TOKENIZER_H_
#define ISOBIT_RUNTIME_TEXT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/model/gguf.h"
#include "runtime/receipt/digest.h"

namespace isobit {

// What a token is for; the numbers are GGUF's tokenizer.ggml.token_type.
enum class TokenKind : uint8_t {
  kNormal = 1,       // written in the byte alphabet, made by merging
  kUnknown = 2,      // special; stands for what can't be said otherwise
  kControl = 3,      // special; found in text, left out of decoded text
  kUserDefined = 4,  // found in text like a control token, but ordinary text when decoded
  kUnused = 5,       // only a place in the vocabulary
  kByte = 6,         // as kNormal
};

// A tokenizer's tables, wherever they were read from. Views need to live only during Create.
struct TokenizerTables {
  std::vector<std::string_view> tokens;  // by id; kNormal and kByte in the byte alphabet
  std::vector<TokenKind> kinds;          // one a token
  std::vector<std::string_view> merges;  // "left right" by rank, both in the byte alphabet
  std::string_view pre_tokenizer;
  std::optional<int32_t> bos_id, eos_id;
  std::vector<int32_t> more_stop_ids;  // that end a turn, besides eos_id
  bool add_bos = false, add_eos = false;
  std::optional<std::string_view> chat_template;
};

struct EncodeOptions {
  bool add_special = true;    // add BOS and EOS if the model's files say so
  bool parse_special = true;  // recognise special tokens that are written in the text
};

// Thread-safe: every method is const and keeps its working state on its own stack.
class Tokenizer {
 public:
  // Reads the tokenizer.ggml.* metadata and copies what it needs; `file` may go afterwards.
  // Errors name the file and the key: InvalidArgument for tables that contradict each other,
  // Unimplemented for a tokenizer model or pre-tokenizer that is not supported (the supported ones
  // are listed).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromGguf(const GgufFile& file);

  // The same from tables; errors name the table and its entry.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const TokenizerTables& tables);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Ids of `text`. A byte for which the vocabulary has no token is left out, as Hugging Face does
  // (see bytes_without_token). A rendered chat template already holds its BOS as text: encode it
  // with add_special = false. Time O(n log n).
  // Errors: InvalidArgument if the text is not valid UTF-8 (naming the byte offset) or has 2^31
  // bytes or more.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                              const EncodeOptions& options = {}) const;

  // Bytes of all pieces in order, with what is not valid UTF-8 replaced by U+FFFD exactly as
  // Python's bytes.decode(errors="replace") does. Ids outside the vocabulary contribute nothing.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = true) const;

  // Raw bytes of one token: may be part of a UTF-8 character. Empty for ids out of range.
  std::string_view Piece(int32_t id) const;

  int32_t vocab_size() const;
  bool IsSpecial(int32_t id) const;  // control and unknown tokens; false for ids out of range

  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  bool adds_bos() const;
  // Ids that end a turn or a text: EOS, EOT, EOM and control tokens that are known to do so by
  // their name (<|im_end|>, <|eot_id|>, <|endoftext|> ...). Ascending.
  std::span<const int32_t> stop_ids() const;

  // The control or user-defined token that is written exactly `piece`.
  std::optional<int32_t> FindSpecial(std::string_view piece) const;

  std::optional<std::string_view> chat_template() const;
  std::string_view pre_tokenizer() const;  // as named in the file

  // Bytes that no token of the vocabulary can stand for, ascending. SmolLM2 has 21 (bytes that
  // valid UTF-8 never or hardly ever holds).
  std::span<const uint8_t> bytes_without_token() const;

  // Of everything that decides ids and text: pieces, kinds, merges, pre-tokenizer, special ids,
  // chat template. Equal on every machine.
  using Digest = isobit::Digest;
  Digest Fingerprint() const;

 private:
  friend class TokenizerBuilder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_TOKENIZER_H_
