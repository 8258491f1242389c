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

namespace isobit {

// Thread-safe: every method is const and keeps its working state on its own stack.
class Tokenizer {
 public:
  // Reads the tokenizer.ggml.* metadata and copies what it needs; `file` may go afterwards.
  // Errors name the key: InvalidArgument for tables that contradict each other, Unimplemented for
  // a tokenizer model or pre-tokenizer that is not supported (the supported ones are listed).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromGguf(const GgufFile& file);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Ids of `text`. Special tokens written in the text are recognised. BOS and EOS are added only if
  // the file says so (add_bos_token, add_eos_token). A byte for which the vocabulary has no token
  // is left out, as Hugging Face does (see bytes_without_token). Errors: InvalidArgument if the
  // text is not valid UTF-8 (naming the byte offset).
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const;

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
  // Ids that end a turn or a text: EOS, EOT, EOM and tokens that are known to do so by their name
  // (<|im_end|>, <|eot_id|>, <|endoftext|> ...). Ascending.
  std::span<const int32_t> stop_ids() const;

  // The id whose piece is exactly `piece` and which is special, for template variables and tests.
  std::optional<int32_t> FindSpecial(std::string_view piece) const;

  std::optional<std::string_view> chat_template() const;
  std::string_view pre_tokenizer() const;  // as named in the file

  // Bytes that no token of the vocabulary can stand for, ascending. SmolLM2 has 21 (bytes that
  // valid UTF-8 never or hardly ever holds).
  std::span<const uint8_t> bytes_without_token() const;

  // XXH3-128 over everything that decides ids and text: pieces, types, merges, pre-tokenizer,
  // special ids, chat template. Equal on every machine.
  struct Digest {
    uint64_t low, high;
    bool operator==(const Digest&) const = default;
  };
  Digest Fingerprint() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_TEXT_TOKENIZER_H_
