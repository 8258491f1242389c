// BPE: text to token ids and back, as Hugging Face's tokenizers and SentencePiece do it.
//
//   text -> added tokens cut out -> normalized -> pre-tokenizer splits into words -> each word's
//   bytes (byte-level BPE) or characters (SentencePiece) merged pair by pair -> ids
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
#include "runtime/text/added_tokens.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/pretokenizer.h"

namespace isobit {

// What a token is for; the numbers are GGUF's tokenizer.ggml.token_type.
enum class TokenKind : uint8_t {
  kNormal = 1,       // made by merging
  kUnknown = 2,      // special; stands for what can't be said otherwise
  kControl = 3,      // special; found in text, left out of decoded text
  kUserDefined = 4,  // found in text like a control token, but ordinary text when decoded
  kUnused = 5,       // only a place in the vocabulary
  kByte = 6,         // of an alphabet of bytes: as kNormal; of characters: "<0x41>", one byte
};

// What SentencePiece writes for a space: U+2581.
inline constexpr std::string_view kSpaceMarker = "\xE2\x96\x81";

struct TokenMerge {
  std::string_view left, right;
};

// A tokenizer's tables, wherever they were read from. Views need to live only during Create.
struct TokenizerTables {
  // What words are made of to begin with.
  enum class Alphabet {
    kBytes,       // tokens are written in the byte alphabet (byte_alphabet.h)
    kCharacters,  // tokens are text; a character that is no token falls back to bytes
  };

  std::vector<std::string_view> tokens;  // by id
  std::vector<TokenKind> kinds;          // one a token
  Alphabet alphabet = Alphabet::kBytes;
  std::vector<TokenMerge> merges;  // by rank
  // SentencePiece's instead of merges: two neighbours merge if together they are a token, the one
  // of highest score first. One a token.
  std::vector<float> scores;
  // With kCharacters: bytes of a character that is no token become the tokens "<0x00>" ...
  bool byte_fallback = false;
  std::optional<int32_t> unknown_id;  // for what nothing else stands for; none: it is left out
  bool fuse_unknown = false;          // one unknown token for several neighbours

  // By name, which may imply NFC and ignore_merges; or, if the name is empty, by `splitter`.
  std::string_view pre_tokenizer;
  PreTokenizer splitter;
  Normalizer normalizer;
  Normalizer rewriter;         // as the normalizer, between added tokens and the pre-tokenizer
  bool ignore_merges = false;  // a word that is a token is taken whole

  // None: control, unknown and user-defined tokens by kind, with no further properties.
  std::optional<std::vector<AddedToken>> added_tokens;

  // Of decoded text: what stands for a space in pieces (with kCharacters), and whether a space at
  // the beginning of a text is the tokenizer's own.
  std::string_view space_marker;
  bool strips_first_space = false;

  std::optional<int32_t> bos_id, eos_id;
  std::vector<int32_t> more_stop_ids;  // that end a turn, besides eos_id
  bool add_bos = false, add_eos = false;
  std::vector<int32_t> more_prefix_ids;  // put in front of a text, behind BOS
  std::vector<int32_t> more_suffix_ids;  // put behind a text, before EOS
  std::optional<std::string_view> chat_template;
};

// "left right", as files write merges, of any of the tables; an error names the merge.
absl::StatusOr<std::vector<TokenMerge>> SplitMerges(std::span<const std::string_view> merges);

// The files of a Hugging Face folder that make a tokenizer, as bytes. Empty: the file isn't there.
struct HuggingFaceTokenizerFiles {
  std::string_view tokenizer_json;         // needed
  std::string_view tokenizer_config_json;  // special tokens, add_bos_token, chat_template
  std::string_view chat_template_jinja;    // stands before the one in tokenizer_config.json
  std::vector<int32_t> stop_ids;           // eos_token_id of generation_config.json and config.json
  // Rows of the embedding: ids above those in the files are unused tokens named "[PAD<id>]", as
  // conversion to GGUF adds them. 0: no more than the files list.
  int64_t vocab_size = 0;
};

struct EncodeOptions {
  bool add_special = true;  // add BOS and EOS if the model's files say so
  // Recognise special tokens that are written in the text. Added tokens that are not special
  // always are.
  bool parse_special = true;
};

// Thread-safe: every method is const and keeps its working state on its own stack.
class Tokenizer {
 public:
  // Reads the tokenizer.ggml.* metadata and copies what it needs; `file` may go afterwards.
  // Errors name the file and the key: InvalidArgument for tables that contradict each other,
  // Unimplemented for a tokenizer model or pre-tokenizer that is not supported (the supported ones
  // are listed).
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromGguf(const GgufFile& file);

  // Reads a Hugging Face tokenizer. Errors begin with the name of the file in the folder and say
  // what part of it they are about: InvalidArgument for what is not JSON or contradicts itself,
  // Unimplemented for a type of model, normalizer, pre-tokenizer, post-processor or decoder, or an
  // option of one, that is not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromHuggingFace(
      const HuggingFaceTokenizerFiles& files);

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
  // `begins_text`: the ids are a text from its beginning, not what goes on from a prompt; then the
  // space that a SentencePiece tokenizer puts in front of a text is taken away again.
  std::string Decode(std::span<const int32_t> ids, bool skip_special = true,
                     bool begins_text = false) const;

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

  // The added token (control, unknown or user-defined) that is written exactly `piece`.
  std::optional<int32_t> FindSpecial(std::string_view piece) const;

  std::optional<std::string_view> chat_template() const;
  // As named in GGUF files; where none has this one, a description.
  std::string_view pre_tokenizer() const;

  // Bytes that no token of the vocabulary can stand for, ascending. SmolLM2 has 21 (bytes that
  // valid UTF-8 never or hardly ever holds).
  std::span<const uint8_t> bytes_without_token() const;

  // Of everything that decides ids and text: pieces, kinds, merges, pre-tokenizer, special ids,
  // chat template. Equal on every machine, and for the same byte-level BPE from GGUF and from
  // tokenizer.json.
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
