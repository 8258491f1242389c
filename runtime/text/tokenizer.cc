#include "runtime/text/tokenizer.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/text/nfc.h"
#include "runtime/text/tokenizer_impl.h"
#include "runtime/text/utf8.h"

namespace isobit {

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                                       const EncodeOptions& options) const {
  constexpr size_t kMaxBytes = std::numeric_limits<int32_t>::max();
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is ", text.size(), " bytes long, the limit is ", kMaxBytes));
  }
  if (const size_t valid = ValidUtf8Prefix(text); valid < text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is not valid UTF-8 at byte offset ", valid, " (0x",
                     absl::Hex(static_cast<uint8_t>(text[valid]), absl::kZeroPad2), ")"));
  }
  std::vector<int32_t> ids;
  if (options.add_special && impl_->add_bos) ids.push_back(*impl_->bos_id);
  for (size_t at = 0; at < text.size();) {
    const SpecialTokens::Match match = options.parse_special
                                           ? impl_->special.Find(text, at)
                                           : SpecialTokens::Match{text.size(), text.size(), -1};
    if (auto s = impl_->EncodePlain(text.substr(at, match.begin - at), &ids); !s.ok()) return s;
    if (match.id >= 0) ids.push_back(match.id);
    at = match.end;
  }
  if (options.add_special && impl_->add_eos) ids.push_back(*impl_->eos_id);
  return ids;
}

absl::Status Tokenizer::Impl::EncodePlain(std::string_view text, std::vector<int32_t>* ids) const {
  std::string normalized;
  if (pre_tokenizer.normalizes()) {
    absl::StatusOr<std::string> nfc = ToNfc(text);
    if (!nfc.ok()) return nfc.status();
    normalized = *std::move(nfc);
    text = normalized;
  }
  std::vector<size_t> ends;
  pre_tokenizer.Split(text, &ends);
  std::vector<int32_t> symbols;
  Bpe::Scratch scratch;
  size_t begin = 0;
  for (const size_t end : ends) {
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    if (pre_tokenizer.ignores_merges()) {
      if (const int32_t id = FindWord(word); id >= 0) {
        ids->push_back(id);
        continue;
      }
    }
    symbols.clear();
    for (const char c : word) {
      const int32_t id = byte_ids[static_cast<uint8_t>(c)];
      if (id >= 0) symbols.push_back(id);
    }
    bpe.Merge(symbols, &scratch, ids);
  }
  return absl::OkStatus();
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special && IsSpecial(id)) continue;
    bytes += Piece(id);
  }
  std::string text;
  TakeWholeUtf8(&bytes, &text);
  if (!bytes.empty()) text += kReplacement;
  return text;
}

std::string_view Tokenizer::Piece(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  return impl_->Piece(static_cast<size_t>(id));
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->kinds.size()); }

bool Tokenizer::IsSpecial(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return false;
  const TokenKind kind = impl_->kinds[static_cast<size_t>(id)];
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

std::optional<int32_t> Tokenizer::bos_id() const { return impl_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos_id; }
bool Tokenizer::adds_bos() const { return impl_->add_bos; }
std::span<const int32_t> Tokenizer::stop_ids() const { return impl_->stop_ids; }

std::optional<int32_t> Tokenizer::FindSpecial(std::string_view piece) const {
  const SpecialTokens::Match match = impl_->special.Find(piece, 0);
  if (match.id < 0 || match.begin != 0 || match.end != piece.size()) return std::nullopt;
  return match.id;
}

std::optional<std::string_view> Tokenizer::chat_template() const { return impl_->chat_template; }
std::string_view Tokenizer::pre_tokenizer() const { return impl_->pre_tokenizer.name(); }

std::span<const uint8_t> Tokenizer::bytes_without_token() const { return impl_->missing_bytes; }

Digest Tokenizer::Fingerprint() const { return impl_->fingerprint; }

}  // namespace isobit
