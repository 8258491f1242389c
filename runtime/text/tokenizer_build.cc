// Builds a Tokenizer from tables, checking them against each other.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/tokenizer_impl.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

// Control tokens that end a turn or a text in the models whose pre-tokenizers are supported. Files
// name at most one of them as EOS.
constexpr std::string_view kStopNames[] = {"<|im_end|>",    "<|eot_id|>",
                                           "<|eom_id|>",    "<|end_of_text|>",
                                           "<|endoftext|>", "<|end|>",
                                           "<|eot|>",       "<end_of_turn>",
                                           "<turn|>",       "<|END_OF_TURN_TOKEN|>",
                                           "<|EOT|>",       "<｜end▁of▁sentence｜>",
                                           "<|return|>",    "<|call|>"};

using Alphabet = TokenizerTables::Alphabet;

bool IsFoundInText(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown ||
         kind == TokenKind::kUserDefined;
}

// The byte that "<0x41>" stands for, or -1.
int ByteOf(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'A' || c > 'F')) return -1;
    value = value * 16 + (digit ? c - '0' : c - 'A' + 10);
  }
  return value;
}

}  // namespace

// Fills an Impl step by step; each step may use what the ones before it made.
class TokenizerBuilder {
 public:
  explicit TokenizerBuilder(const TokenizerTables& tables) : tables_(tables) {}

  absl::StatusOr<std::unique_ptr<Tokenizer::Impl>> Run();

 private:
  bool of_bytes() const { return tables_.alphabet == Alphabet::kBytes; }
  // Whether merging may give the token, or begin with it.
  bool IsMade(size_t id) const;

  absl::Status SetPipeline();
  absl::Status AddTokens();
  absl::Status NormalizeAddedTokens();
  std::string PieceOf(size_t id) const;
  absl::Status AddAddedTokens();
  absl::Status AddAddedToken(const AddedToken& token);
  absl::Status FindBytes();
  absl::Status AddMerges();
  absl::Status AddScores();
  absl::Status AddScore(size_t id, uint32_t rank);
  int32_t FindOrAddCharacter(std::string_view text);
  bool NoTokenCrossesMarker() const;
  absl::Status AddIds();
  absl::Status CheckId(const char* what, int32_t id) const;
  Digest Fingerprint() const;
  void AddRareParts(DigestBuilder* digest) const;

  const TokenizerTables& tables_;
  std::unique_ptr<Tokenizer::Impl> impl_;
  absl::flat_hash_map<int32_t, std::string> normalized_;  // added tokens that read so
};

absl::StatusOr<std::unique_ptr<Tokenizer::Impl>> TokenizerBuilder::Run() {
  impl_ = std::make_unique<Tokenizer::Impl>();
  if (auto s = SetPipeline(); !s.ok()) return s;
  if (auto s = NormalizeAddedTokens(); !s.ok()) return s;
  if (auto s = AddTokens(); !s.ok()) return s;
  if (auto s = AddAddedTokens(); !s.ok()) return s;
  if (auto s = FindBytes(); !s.ok()) return s;
  if (auto s = tables_.scores.empty() ? AddMerges() : AddScores(); !s.ok()) return s;
  if (auto s = AddIds(); !s.ok()) return s;
  impl_->splits_at_marker = !of_bytes() && impl_->pre_tokenizer.empty() && NoTokenCrossesMarker();
  if (tables_.chat_template) impl_->chat_template = std::string(*tables_.chat_template);
  impl_->fingerprint = Fingerprint();
  return std::move(impl_);
}

absl::Status TokenizerBuilder::SetPipeline() {
  impl_->byte_alphabet = of_bytes();
  impl_->byte_fallback = tables_.byte_fallback;
  impl_->fuse_unknown = tables_.fuse_unknown;
  impl_->normalizer = tables_.normalizer;
  impl_->rewriter = tables_.rewriter;
  impl_->ignores_merges = tables_.ignore_merges;
  impl_->strips_first_space = tables_.strips_first_space;
  if (tables_.pre_tokenizer.empty()) {
    impl_->pre_tokenizer = tables_.splitter;
    const bool nfc = tables_.normalizer.description() == "NFC";
    impl_->pre_tokenizer_name = tables_.splitter.NameAmong(nfc, tables_.ignore_merges);
    return absl::OkStatus();
  }
  absl::StatusOr<PreTokenizer> pre = PreTokenizer::ForName(tables_.pre_tokenizer);
  if (!pre.ok()) return pre.status();
  if (pre->normalizes()) impl_->normalizer.AddNfc();
  impl_->ignores_merges = impl_->ignores_merges || pre->ignores_merges();
  impl_->pre_tokenizer_name = pre->name();
  impl_->pre_tokenizer = *std::move(pre);
  return absl::OkStatus();
}

bool TokenizerBuilder::IsMade(size_t id) const {
  const TokenKind kind = tables_.kinds[id];
  if (of_bytes()) return kind == TokenKind::kNormal || kind == TokenKind::kByte;
  // Such as the runs of spaces of Gemma, which text may hold literally and which merging makes too.
  return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
}

absl::Status TokenizerBuilder::NormalizeAddedTokens() {
  for (const AddedToken& token : tables_.added_tokens.value_or(std::vector<AddedToken>())) {
    if (!token.normalized) continue;
    absl::StatusOr<std::string> content = impl_->normalizer.Apply(token.content, true);
    if (!content.ok()) return content.status();
    normalized_[token.id] = *std::move(content);
  }
  return absl::OkStatus();
}

// The raw bytes of a token. A token that is looked for in normalized text is decoded as it reads
// there, as Hugging Face does.
std::string TokenizerBuilder::PieceOf(size_t id) const {
  const auto normalized = normalized_.find(static_cast<int32_t>(id));
  const std::string_view text =
      normalized == normalized_.end() ? tables_.tokens[id] : std::string_view(normalized->second);
  const TokenKind kind = tables_.kinds[id];
  std::string bytes;
  if (of_bytes()) {
    // Text outside the alphabet is taken literally, as Hugging Face's decoder does.
    const bool made = kind == TokenKind::kNormal || kind == TokenKind::kByte;
    return made && FromByteAlphabet(text, &bytes) ? bytes : std::string(text);
  }
  if (kind == TokenKind::kByte) return std::string(1, static_cast<char>(ByteOf(text)));
  if (tables_.space_marker.empty()) return std::string(text);
  size_t at = 0;
  for (size_t found; (found = text.find(tables_.space_marker, at)) != text.npos;
       at = found + tables_.space_marker.size()) {
    bytes.append(text, at, found - at).append(" ");
  }
  return bytes.append(text, at, text.npos);
}

absl::Status TokenizerBuilder::AddTokens() {
  const size_t count = tables_.tokens.size();
  if (count == 0 || count >= std::numeric_limits<int32_t>::max() / 2) {
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
  std::vector<size_t> ends;  // in `texts`
  for (size_t id = 0; id < count; ++id) {
    const std::string_view text = tables_.tokens[id];
    const auto [first, is_new] = seen.try_emplace(Absl(text), id);
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("tokens ", first->second, " and ", id, " are both ", Quoted(text)));
    }
    if (!of_bytes() && tables_.kinds[id] == TokenKind::kByte && ByteOf(text) < 0) {
      return absl::InvalidArgumentError(absl::StrCat("token ", id, " stands for a byte but is ",
                                                     Quoted(text), ", expected <0x00> to <0xFF>"));
    }
    impl_->begins.push_back(impl_->pieces.size());
    impl_->pieces += PieceOf(id);
    if (!of_bytes()) impl_->texts += text;
    ends.push_back(impl_->texts.size());
  }
  impl_->begins.push_back(impl_->pieces.size());
  impl_->words.reserve(count);
  std::string bytes;
  for (size_t id = 0; id < count; ++id) {
    if (!IsMade(id)) continue;
    // No text turns into a token that is not in the byte alphabet.
    if (of_bytes() && !FromByteAlphabet(tables_.tokens[id], &bytes)) continue;
    const size_t begin = id == 0 ? 0 : ends[id - 1];
    const std::string_view word =
        of_bytes() ? impl_->Piece(id)
                   : std::string_view(impl_->texts).substr(begin, ends[id] - begin);
    impl_->words.try_emplace(Absl(word), static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddAddedToken(const AddedToken& token) {
  const auto normalized = normalized_.find(token.id);
  const std::string_view content =
      token.normalized ? std::string_view(normalized->second) : token.content;
  if (content.empty()) return absl::OkStatus();
  if (content.size() > AddedTokens::kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("added token ", token.id, " ", Quoted(content), " is ", content.size(),
                     " bytes long, the limit is ", AddedTokens::kMaxBytes));
  }
  (token.normalized ? impl_->normalized_added : impl_->raw_added).Add(content, token);
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddAddedTokens() {
  if (tables_.added_tokens) {
    for (const AddedToken& token : *tables_.added_tokens) {
      if (auto s = CheckId("added", token.id); !s.ok()) return s;
      if (auto s = AddAddedToken(token); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  for (size_t id = 0; id < tables_.kinds.size(); ++id) {
    if (!IsFoundInText(tables_.kinds[id])) continue;
    AddedToken token;
    token.content = tables_.tokens[id];
    token.id = static_cast<int32_t>(id);
    token.special = tables_.kinds[id] != TokenKind::kUserDefined;
    if (auto s = AddAddedToken(token); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// The tokens of single bytes, from which every word is built.
absl::Status TokenizerBuilder::FindBytes() {
  impl_->byte_ids.fill(-1);
  if (!of_bytes()) {
    for (size_t id = 0; id < tables_.tokens.size(); ++id) {
      if (tables_.kinds[id] != TokenKind::kByte) continue;
      impl_->byte_ids[static_cast<size_t>(ByteOf(tables_.tokens[id]))] = static_cast<int32_t>(id);
    }
    return absl::OkStatus();
  }
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
    const TokenMerge& merge = tables_.merges[rank];
    const auto bad = [&](std::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(
          "merge ", rank, " ", Quoted(absl::StrCat(Absl(merge.left), " ", Absl(merge.right))), " ",
          Absl(what)));
    };
    left = merge.left, right = merge.right;
    if (of_bytes() &&
        (!FromByteAlphabet(merge.left, &left) || !FromByteAlphabet(merge.right, &right))) {
      return bad("is not written in the byte alphabet");
    }
    const int32_t left_id = impl_->FindWord(left), right_id = impl_->FindWord(right);
    const int32_t merged_id = impl_->FindWord(left.append(right));
    if (left_id < 0 || right_id < 0 || merged_id < 0) {
      return bad(left_id < 0    ? "has a first part that is not in the vocabulary"
                 : right_id < 0 ? "has a second part that is not in the vocabulary"
                                : "gives a token that is not in the vocabulary");
    }
    if (!impl_->bpe.Add(left_id, right_id, merged_id, static_cast<uint32_t>(rank))) {
      return bad("appears twice");
    }
  }
  return absl::OkStatus();
}

// SentencePiece's rule as pairs: every way to cut a token in two is a merge, ranked by the token's
// score.
absl::Status TokenizerBuilder::AddScores() {
  if (tables_.scores.size() != tables_.tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the vocabulary has ", tables_.tokens.size(),
                                                   " tokens but ", tables_.scores.size(),
                                                   " scores"));
  }
  std::vector<size_t> made;
  for (size_t id = 0; id < tables_.tokens.size(); ++id) {
    if (!IsMade(id)) continue;
    if (std::isnan(tables_.scores[id])) {
      return absl::InvalidArgumentError(
          absl::StrCat("the score of token ", id, " is not a number"));
    }
    made.push_back(id);
  }
  std::stable_sort(made.begin(), made.end(),
                   [this](size_t a, size_t b) { return tables_.scores[a] > tables_.scores[b]; });
  uint32_t rank = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    if (i > 0 && tables_.scores[made[i]] != tables_.scores[made[i - 1]]) ++rank;
    if (auto s = AddScore(made[i], rank); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status TokenizerBuilder::AddScore(size_t id, uint32_t rank) {
  const std::string_view text = tables_.tokens[id];
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = StepUtf8(text.substr(at));
    if (step.kind != Utf8Step::kValid) {
      return absl::InvalidArgumentError(
          absl::StrCat("token ", id, " ", Quoted(text), " is not valid UTF-8"));
    }
    at += step.length;
    if (at == text.size()) break;
    const int32_t left = FindOrAddCharacter(text.substr(0, at));
    const int32_t right = left < 0 ? -1 : FindOrAddCharacter(text.substr(at));
    if (right >= 0) impl_->bpe.Add(left, right, static_cast<int32_t>(id), rank);
  }
  return absl::OkStatus();
}

// A single character may begin a merge without being a token.
int32_t TokenizerBuilder::FindOrAddCharacter(std::string_view text) {
  if (const int32_t id = impl_->FindWord(text); id >= 0) return id;
  const Utf8Step step = StepUtf8(text);
  if (step.kind != Utf8Step::kValid || step.length != text.size()) return -1;
  const auto next = static_cast<int32_t>(impl_->vocab_size() + impl_->virtual_chars.size());
  const auto [found, is_new] = impl_->virtual_ids.try_emplace(step.point, next);
  if (is_new) impl_->virtual_chars.emplace_back(text);
  return found->second;
}

bool TokenizerBuilder::NoTokenCrossesMarker() const {
  for (size_t id = 0; id < tables_.tokens.size(); ++id) {
    if (!IsMade(id)) continue;
    std::string_view text = tables_.tokens[id];
    while (text.substr(0, kSpaceMarker.size()) == kSpaceMarker)
      text.remove_prefix(kSpaceMarker.size());
    if (text.find(kSpaceMarker) != text.npos) return false;
  }
  return true;
}

absl::Status TokenizerBuilder::CheckId(const char* what, int32_t id) const {
  if (id >= 0 && static_cast<size_t>(id) < tables_.tokens.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " token id ", id, " must be in [0, ", tables_.tokens.size(), ")"));
}

absl::Status TokenizerBuilder::AddIds() {
  std::vector<int32_t>& stops = impl_->stop_ids;
  if (tables_.bos_id) {
    if (auto s = CheckId("BOS", *tables_.bos_id); !s.ok()) return s;
  } else if (tables_.add_bos) {
    return absl::InvalidArgumentError("BOS is to be added but there is no BOS token id");
  }
  if (tables_.eos_id) {
    if (auto s = CheckId("EOS", *tables_.eos_id); !s.ok()) return s;
    stops.push_back(*tables_.eos_id);
  } else if (tables_.add_eos) {
    return absl::InvalidArgumentError("EOS is to be added but there is no EOS token id");
  }
  for (const int32_t id : tables_.more_stop_ids) {
    if (auto s = CheckId("stop", id); !s.ok()) return s;
    stops.push_back(id);
  }
  for (size_t id = 0; id < tables_.kinds.size(); ++id) {
    const TokenKind kind = tables_.kinds[id];
    if ((kind == TokenKind::kControl || kind == TokenKind::kUserDefined) &&
        std::count(std::begin(kStopNames), std::end(kStopNames), tables_.tokens[id]) > 0) {
      stops.push_back(static_cast<int32_t>(id));
    }
  }
  std::sort(stops.begin(), stops.end());
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  impl_->bos_id = tables_.bos_id;
  impl_->eos_id = tables_.eos_id;
  impl_->add_bos = tables_.add_bos;
  if (tables_.unknown_id) {
    if (auto s = CheckId("unknown", *tables_.unknown_id); !s.ok()) return s;
    impl_->unknown_id = tables_.unknown_id;
  }
  std::vector<int32_t>& prefix = impl_->prefix_ids;
  std::vector<int32_t>& suffix = impl_->suffix_ids;
  if (tables_.add_bos) prefix.push_back(*tables_.bos_id);
  prefix.insert(prefix.end(), tables_.more_prefix_ids.begin(), tables_.more_prefix_ids.end());
  suffix = tables_.more_suffix_ids;
  if (tables_.add_eos) suffix.push_back(*tables_.eos_id);
  for (const auto* ids : {&prefix, &suffix}) {
    for (const int32_t id : *ids) {
      if (auto s = CheckId("post-processor", id); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

Digest TokenizerBuilder::Fingerprint() const {
  DigestBuilder digest;
  digest.Add(of_bytes() ? "byte-level bpe" : "character bpe").Add(impl_->pre_tokenizer_name);
  digest.AddUnsigned(tables_.tokens.size());
  for (size_t id = 0; id < tables_.tokens.size(); ++id) {
    digest.Add(impl_->Piece(id)).AddUnsigned(static_cast<uint64_t>(tables_.kinds[id]));
  }
  digest.AddUnsigned(tables_.merges.size());
  for (const TokenMerge& merge : tables_.merges) {
    digest.Add(absl::StrCat(Absl(merge.left), " ", Absl(merge.right)));
  }
  digest.Add(int64_t{tables_.bos_id.value_or(-1)}).Add(int64_t{tables_.eos_id.value_or(-1)});
  digest.Add(std::span<const int32_t>(impl_->stop_ids));
  digest.AddUnsigned(tables_.add_bos).AddUnsigned(tables_.add_eos);
  digest.AddUnsigned(tables_.chat_template.has_value());
  digest.Add(tables_.chat_template.value_or(std::string_view()));
  AddRareParts(&digest);
  return digest.Finish();
}

// What most byte-level tokenizers don't have; each part says its name.
void TokenizerBuilder::AddRareParts(DigestBuilder* digest) const {
  const std::string& normalizer = impl_->normalizer.description();
  if (normalizer != "" && normalizer != "NFC") digest->Add("normalizer").Add(normalizer);
  if (!impl_->rewriter.empty()) digest->Add("rewriter").Add(impl_->rewriter.description());
  if (!tables_.scores.empty()) {
    digest->Add("scores");
    for (const float score : tables_.scores) digest->AddUnsigned(std::bit_cast<uint32_t>(score));
  }
  if (tables_.byte_fallback) digest->Add("byte fallback");
  if (tables_.unknown_id) {
    digest->Add("unknown").Add(int64_t{*tables_.unknown_id}).AddUnsigned(tables_.fuse_unknown);
  }
  if (tables_.strips_first_space) digest->Add("strips first space");
  if (!tables_.more_prefix_ids.empty() || !tables_.more_suffix_ids.empty()) {
    digest->Add("affixes").Add(std::span<const int32_t>(tables_.more_prefix_ids));
    digest->Add(std::span<const int32_t>(tables_.more_suffix_ids));
  }
  for (const AddedToken& token : tables_.added_tokens.value_or(std::vector<AddedToken>())) {
    const unsigned flags =
        token.lstrip | token.rstrip << 1 | token.single_word << 2 | token.normalized << 3;
    if (flags != 0) digest->Add("added").Add(int64_t{token.id}).AddUnsigned(flags);
  }
}

absl::StatusOr<std::vector<TokenMerge>> SplitMerges(std::span<const std::string_view> merges) {
  std::vector<TokenMerge> pairs;
  pairs.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ');
    if (space == merge.npos || space == 0 || merge.find(' ', space + 1) != merge.npos ||
        space + 1 == merge.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "merge ", rank, " ", Quoted(merge), " is not two pieces with a space between them"));
    }
    pairs.push_back({merge.substr(0, space), merge.substr(space + 1)});
  }
  return pairs;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const TokenizerTables& tables) {
  absl::StatusOr<std::unique_ptr<Impl>> impl = TokenizerBuilder(tables).Run();
  if (!impl.ok()) return impl.status();
  return std::unique_ptr<Tokenizer>(new Tokenizer(*std::move(impl)));
}

}  // namespace isobit
