#include "runtime/text/tokenizer.h"

#include <utility>

#include "runtime/text/tokenizer_impl.h"
#include "runtime/text/utf8.h"

namespace isobit {

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special,
                              bool begins_text) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (skip_special && IsSpecial(id)) continue;
    bytes += Piece(id);
  }
  if (begins_text && impl_->strips_first_space && bytes.starts_with(' ')) bytes.erase(0, 1);
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
  const int32_t raw = impl_->raw_added.Find(piece);
  const int32_t id = raw >= 0 ? raw : impl_->normalized_added.Find(piece);
  return id >= 0 ? std::optional(id) : std::nullopt;
}

std::optional<std::string_view> Tokenizer::chat_template() const { return impl_->chat_template; }
std::string_view Tokenizer::pre_tokenizer() const { return impl_->pre_tokenizer_name; }

std::span<const uint8_t> Tokenizer::bytes_without_token() const { return impl_->missing_bytes; }

Digest Tokenizer::Fingerprint() const { return impl_->fingerprint; }

}  // namespace isobit
