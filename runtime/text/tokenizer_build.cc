// Builds a Tokenizer from tables, checking them against each other.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/tokenizer_impl.h"

namespace isobit {
namespace {

// Control tokens that end a turn or a text in the models whose pre-tokenizers are supported. Files
// name at most one of them as EOS.
constexpr std::string_view kStopNames[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>",
                                           "<|end_of_text|>", "<|endoftext|>"};

bool IsMade(TokenKind kind) { return kind == TokenKind::kNormal || kind == TokenKind::kByte; }

bool IsFoundInText(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown ||
         kind == TokenKind::kUserDefined;
}

}  // namespace

// Fills an Impl step by step; each step may use what the ones before it made.
class TokenizerBuilder {
 public:
  explicit TokenizerBuilder(const TokenizerTables& tables) : tables_(tables) {}

  absl::StatusOr<std::unique_ptr<Tokenizer::Impl>> Run() {
    absl::StatusOr<PreTokenizer> pre = PreTokenizer::ForName(tables_.pre_tokenizer);
    if (!pre.ok()) return pre.status();
    impl_ = std::make_unique<Tokenizer::Impl>(*pre);
    if (auto s = AddTokens(); !s.ok()) return s;
    if (auto s = AddSpecialTokens(); !s.ok()) return s;
    if (auto s = FindBytes(); !s.ok()) return s;
    if (auto s = AddMerges(); !s.ok()) return s;
    if (auto s = AddIds(); !s.ok()) return s;
    if (tables_.chat_template) impl_->chat_template = std::string(*tables_.chat_template);
    impl_->fingerprint = Fingerprint();
    return std::move(impl_);
  }

 private:
  absl::Status AddTokens();
  absl::Status AddSpecialTokens();
  absl::Status FindBytes();
  absl::Status AddMerges();
  absl::Status AddIds();
  Digest Fingerprint() const;

  const TokenizerTables& tables_;
  std::unique_ptr<Tokenizer::Impl> impl_;
};

absl::Status TokenizerBuilder::AddTokens() {
  const size_t count = tables_.tokens.size();
  if (count == 0 || count >= std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("the vocabulary has ", count, " tokens"));
  }
  if (tables_.kinds.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat("the vocabulary has ", count, " tokens but ",
                                                   tables_.kinds.size(), " token types"));
  }
  absl::flat_hash_map<absl::string_view, size_t> seen;
  seen.reserve(count);
  impl_->kinds = tables_.kinds;
  impl_->begins.reserve(count + 1);
  std::string bytes;
  for (size_t id = 0; id < count; ++id) {
    const std::string_view text = tables_.tokens[id];
    const auto [first, is_new] = seen.try_emplace(Absl(text), id);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", first->second, " and ", id, " are both ", Quoted(text)));
    }
    // Text outside the alphabet is taken literally, as Hugging Face's decoder does.
    const bool mapped = IsMade(tables_.kinds[id]) && FromByteAlphabet(text, &bytes);
    impl_->begins.push_back(impl_->pieces.size());
    impl_->pieces += mapped ? std::string_view(bytes) : text;
  }
  impl_->begins.push_back(impl_->pieces.size());
  impl_->words.reserve(count);
  for (size_t id = 0; id < count; ++id) {
    if (IsMade(tables_.kinds[id])) {
      impl_->words.try_emplace(Absl(impl_->Piece(id)), static_cast<int32_t>(id));
    }
  }
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddSpecialTokens() {
  for (size_t id = 0; id < tables_.kinds.size(); ++id) {
    const std::string_view piece = impl_->Piece(id);
    if (!IsFoundInText(tables_.kinds[id]) || piece.empty()) continue;
    if (piece.size() > SpecialTokens::kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("special token ", id, " ", Quoted(piece), " is ", piece.size(),
                       " bytes long, the limit is ", SpecialTokens::kMaxBytes));
    }
    impl_->special.Add(piece, static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

// The tokens of single bytes, from which every word is built.
absl::Status TokenizerBuilder::FindBytes() {
  std::string missing;
  int printable = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const int32_t id = impl_->FindWord(std::string_view(&c, 1));
    impl_->byte_ids[static_cast<size_t>(byte)] = id;
    if (id >= 0) continue;
    impl_->missing_bytes.push_back(static_cast<uint8_t>(byte));
    if (byte < 0x20 || byte > 0x7E) continue;
    if (printable++ == 0) missing = absl::StrCat("0x", absl::Hex(byte, absl::kZeroPad2));
  }
  if (printable > 0) {
    return absl::InvalidArgumentError(absl::StrCat("the vocabulary has no token for ", printable,
                                                   " of the 95 printable ASCII bytes, the first ",
                                                   missing, "; it is not a byte-level vocabulary"));
  }
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddMerges() {
  impl_->bpe.Reserve(tables_.merges.size());
  std::string left, right;
  for (size_t rank = 0; rank < tables_.merges.size(); ++rank) {
    const std::string_view merge = tables_.merges[rank];
    const auto bad = [&](std::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", rank, " ", Quoted(merge), " ", Absl(what)));
    };
    const size_t space = merge.find(' ');
    if (space == merge.npos || space == 0 || merge.find(' ', space + 1) != merge.npos ||
        space + 1 == merge.size()) {
      return bad("is not two pieces with a space between them");
    }
    if (!FromByteAlphabet(merge.substr(0, space), &left) ||
        !FromByteAlphabet(merge.substr(space + 1), &right)) {
      return bad("is not written in the byte alphabet");
    }
    const int32_t left_id = impl_->FindWord(left), right_id = impl_->FindWord(right);
    const int32_t merged_id = impl_->FindWord(left.append(right));
    if (left_id < 0 || right_id < 0 || merged_id < 0) {
      return bad(left_id < 0    ? "has a first part that is not in the vocabulary"
                 : right_id < 0 ? "has a second part that is not in the vocabulary"
                                : "gives a token that is not in the vocabulary");
    }
    if (!impl_->bpe.Add(left_id, right_id, merged_id)) return bad("appears twice");
  }
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddIds() {
  const auto check = [&](const char* what, int32_t id) {
    if (id >= 0 && static_cast<size_t>(id) < tables_.tokens.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, " token id ", id, " is not below ", tables_.tokens.size()));
  };
  std::vector<int32_t>& stops = impl_->stop_ids;
  if (tables_.bos_id) {
    if (auto s = check("BOS", *tables_.bos_id); !s.ok()) return s;
  } else if (tables_.add_bos) {
    return absl::InvalidArgumentError("BOS is to be added but there is no BOS token id");
  }
  if (tables_.eos_id) {
    if (auto s = check("EOS", *tables_.eos_id); !s.ok()) return s;
    stops.push_back(*tables_.eos_id);
  } else if (tables_.add_eos) {
    return absl::InvalidArgumentError("EOS is to be added but there is no EOS token id");
  }
  for (const int32_t id : tables_.more_stop_ids) {
    if (auto s = check("stop", id); !s.ok()) return s;
    stops.push_back(id);
  }
  for (size_t id = 0; id < tables_.kinds.size(); ++id) {
    if (tables_.kinds[id] == TokenKind::kControl &&
        std::count(std::begin(kStopNames), std::end(kStopNames), impl_->Piece(id)) > 0) {
      stops.push_back(static_cast<int32_t>(id));
    }
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  impl_->bos_id = tables_.bos_id;
  impl_->eos_id = tables_.eos_id;
  impl_->add_bos = tables_.add_bos;
  impl_->add_eos = tables_.add_eos;
  return absl::OkStatus();
}

Digest TokenizerBuilder::Fingerprint() const {
  DigestBuilder digest;
  digest.Add("byte-level bpe").Add(tables_.pre_tokenizer);
  digest.AddUnsigned(tables_.tokens.size());
  for (size_t id = 0; id < tables_.tokens.size(); ++id) {
    digest.Add(impl_->Piece(id)).AddUnsigned(static_cast<uint64_t>(tables_.kinds[id]));
  }
  digest.AddUnsigned(tables_.merges.size());
  for (const std::string_view merge : tables_.merges) digest.Add(merge);
  digest.Add(int64_t{tables_.bos_id.value_or(-1)}).Add(int64_t{tables_.eos_id.value_or(-1)});
  digest.Add(std::span<const int32_t>(impl_->stop_ids));
  digest.AddUnsigned(tables_.add_bos).AddUnsigned(tables_.add_eos);
  digest.AddUnsigned(tables_.chat_template.has_value());
  digest.Add(tables_.chat_template.value_or(std::string_view()));
  return digest.Finish();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerTables& tables) {
  absl::StatusOr<std::unique_ptr<Impl>> impl = TokenizerBuilder(tables).Run();
  if (!impl.ok()) return impl.status();
  return std::unique_ptr<Tokenizer>(new Tokenizer(*std::move(impl)));
}

}  // namespace isobit
