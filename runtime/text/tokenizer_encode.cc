// From text to token ids.
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/text/tokenizer_impl.h"
#include "runtime/text/utf8.h"

namespace isobit {
namespace {

// Words that a text repeats are merged once. Longer words hardly repeat; short texts have few.
constexpr size_t kCachedWordBytes = 48;
constexpr size_t kCachedTextBytes = 1024;

}  // namespace

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
  if (options.add_special) ids = impl_->prefix_ids;
  for (const auto& segment : impl_->raw_added.Split(text, options.parse_special)) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    const std::string_view between = text.substr(segment.begin, segment.end - segment.begin);
    if (auto s = impl_->EncodeRaw(between, segment.begin == 0, options.parse_special, &ids);
        !s.ok()) {
      return s;
    }
  }
  if (options.add_special) {
    ids.insert(ids.end(), impl_->suffix_ids.begin(), impl_->suffix_ids.end());
  }
  return ids;
}

absl::Status Tokenizer::Impl::EncodeRaw(std::string_view text, bool at_start, bool with_special,
                                        std::vector<int32_t>* ids) const {
  std::string normalized;
  if (!normalizer.empty()) {
    absl::StatusOr<std::string> applied = normalizer.Apply(text, at_start);
    if (!applied.ok()) return applied.status();
    normalized = *std::move(applied);
    text = normalized;
  }
  if (normalized_added.empty()) return EncodePlain(text, at_start, ids);
  for (const auto& segment : normalized_added.Split(text, with_special)) {
    if (segment.id >= 0) {
      ids->push_back(segment.id);
      continue;
    }
    if (auto s = EncodePlain(text.substr(segment.begin, segment.end - segment.begin),
                             at_start && segment.begin == 0, ids);
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::Impl::EncodePlain(std::string_view text, bool at_start,
                                          std::vector<int32_t>* ids) const {
  std::string rewritten;
  if (!rewriter.empty()) {
    absl::StatusOr<std::string> applied = rewriter.Apply(text, at_start);
    if (!applied.ok()) return applied.status();
    rewritten = *std::move(applied);
    text = rewritten;
  }
  Words words_at;
  if (splits_at_marker) {
    SplitAtMarker(text, &words_at);
  } else if (auto s = pre_tokenizer.Split(text, &words_at); !s.ok()) {
    return s;
  }
  EncodeWords(text, words_at, ids);
  return absl::OkStatus();
}

void Tokenizer::Impl::SplitAtMarker(std::string_view text, Words* out) const {
  for (size_t begin = 0; begin < text.size();) {
    // A run of markers belongs to what follows it.
    size_t end = begin;
    while (text.substr(end, kSpaceMarker.size()) == kSpaceMarker) end += kSpaceMarker.size();
    end = std::min(text.find(kSpaceMarker, end), text.size());
    out->emplace_back(begin, end);
    begin = end;
  }
}

void Tokenizer::Impl::EncodeWords(std::string_view text, const Words& words_at,
                                  std::vector<int32_t>* ids) const {
  std::vector<int32_t> symbols, merged;
  Bpe::Scratch scratch;
  // Where the ids of a word lie in `ids`.
  absl::flat_hash_map<absl::string_view, std::pair<size_t, size_t>> known;
  const bool caches = text.size() >= kCachedTextBytes;
  for (const auto& [begin, end] : words_at) {
    const std::string_view word = text.substr(begin, end - begin);
    if (ignores_merges) {
      if (const int32_t id = FindWord(word); id >= 0) {
        ids->push_back(id);
        continue;
      }
    }
    const size_t first = ids->size();
    if (caches && word.size() <= kCachedWordBytes) {
      const auto [found, is_new] = known.try_emplace(Absl(word), first, 0);
      if (!is_new) {
        for (size_t i = 0; i < found->second.second; ++i) {
          ids->push_back((*ids)[found->second.first + i]);
        }
        continue;
      }
    }
    symbols.clear();
    StartWord(word, &symbols);
    if (virtual_chars.empty()) {
      bpe.Merge(symbols, &scratch, ids);
    } else {
      merged.clear();
      bpe.Merge(symbols, &scratch, &merged);
      for (const int32_t id : merged) {
        const auto index = static_cast<size_t>(id);
        if (index < vocab_size()) {
          ids->push_back(id);
        } else {
          AddFallback(virtual_chars[index - vocab_size()], ids);
        }
      }
    }
    if (caches && word.size() <= kCachedWordBytes) {
      known[Absl(word)].second = ids->size() - first;
    }
  }
}

void Tokenizer::Impl::StartWord(std::string_view word, std::vector<int32_t>* symbols) const {
  if (!byte_alphabet) {
    for (size_t at = 0; at < word.size();) {
      const size_t length = StepUtf8(word.substr(at)).length;
      AddCharacter(word.substr(at, length), symbols);
      at += length;
    }
    return;
  }
  for (const char c : word) {
    const int32_t id = byte_ids[static_cast<uint8_t>(c)];
    if (id >= 0) {
      symbols->push_back(id);
    } else if (unknown_id) {
      symbols->push_back(*unknown_id);
    }
  }
}

void Tokenizer::Impl::AddCharacter(std::string_view character,
                                   std::vector<int32_t>* symbols) const {
  if (const int32_t id = FindWord(character); id >= 0) {
    symbols->push_back(id);
    return;
  }
  if (!virtual_ids.empty()) {
    const auto found = virtual_ids.find(StepUtf8(character).point);
    if (found != virtual_ids.end()) {
      symbols->push_back(found->second);
      return;
    }
  }
  AddFallback(character, symbols);
}

void Tokenizer::Impl::AddFallback(std::string_view character, std::vector<int32_t>* ids) const {
  if (byte_fallback) {
    bool all = true;
    for (const char c : character) all = all && byte_ids[static_cast<uint8_t>(c)] >= 0;
    if (all) {
      for (const char c : character) ids->push_back(byte_ids[static_cast<uint8_t>(c)]);
      return;
    }
  }
  if (!unknown_id || (fuse_unknown && !ids->empty() && ids->back() == *unknown_id)) return;
  ids->push_back(*unknown_id);
}

}  // namespace isobit
