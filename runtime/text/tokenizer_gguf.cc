// Reads a tokenizer's tables from the metadata of a GGUF file.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/text/tokenizer.h"

namespace isobit {
namespace {

constexpr char kPrefix[] = "tokenizer.ggml.";
// Reads an optional key of the tokenizer into `out`, which keeps its value if there is none.
template <typename T, typename Out>
absl::Status ReadIfThere(const GgufFile& file, std::string_view name, Out* out) {
  const std::string key = absl::StrCat(kPrefix, Absl(name));
  if (!file.Has(key)) return absl::OkStatus();
  absl::StatusOr<T> value = file.Get<T>(key);
  if (!value.ok()) return value.status();
  *out = *std::move(value);
  return absl::OkStatus();
}

template <typename T>
absl::Status Read(const GgufFile& file, std::string_view name, T* out) {
  absl::StatusOr<T> value = file.Get<T>(absl::StrCat(kPrefix, Absl(name)));
  if (!value.ok()) return absl::InvalidArgumentError(value.status().message());
  *out = *std::move(value);
  return absl::OkStatus();
}

absl::Status ReadKinds(const GgufFile& file, size_t count, std::vector<TokenKind>* kinds) {
  kinds->assign(count, TokenKind::kNormal);
  std::vector<int32_t> types(count, static_cast<int32_t>(TokenKind::kNormal));
  if (auto s = ReadIfThere<std::vector<int32_t>>(file, "token_type", &types); !s.ok()) return s;
  if (types.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", kPrefix, "token_type has ",
                                                   types.size(), " entries for ", count,
                                                   " tokens"));
  }
  for (size_t i = 0; i < count; ++i) {
    if (types[i] < static_cast<int32_t>(TokenKind::kNormal) ||
        types[i] > static_cast<int32_t>(TokenKind::kByte)) {
      return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", kPrefix,
                                                     "token_type of token ", i, " is ", types[i],
                                                     ", expected 1 to 6"));
    }
    (*kinds)[i] = static_cast<TokenKind>(types[i]);
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const GgufFile& file, TokenizerTables* tables) {
  std::vector<std::string_view> merges;
  if (auto s = Read(file, "merges", &merges); !s.ok()) return s;
  absl::StatusOr<std::vector<TokenMerge>> pairs = SplitMerges(merges);
  if (!pairs.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tokenizer: ", pairs.status().message()));
  }
  tables->merges = *std::move(pairs);
  return absl::OkStatus();
}

// SentencePiece BPE ("llama"): pieces with scores, U+2581 for spaces.
absl::Status ReadSentencePiece(const GgufFile& file, TokenizerTables* tables) {
  if (file.Has("tokenizer.ggml.precompiled_charsmap")) {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": tokenizer.ggml.precompiled_charsmap is not supported"));
  }
  bool add_prefix = true, collapses = false;
  if (auto s = Read(file, "scores", &tables->scores); !s.ok()) return s;
  if (auto s = ReadIfThere<bool>(file, "add_space_prefix", &add_prefix); !s.ok()) return s;
  if (auto s = ReadIfThere<bool>(file, "remove_extra_whitespaces", &collapses); !s.ok()) return s;
  tables->add_bos = true;
  tables->byte_fallback = true;
  if (collapses) tables->normalizer.AddCollapseSpaces();
  if (add_prefix) tables->normalizer.AddPrepend(kSpaceMarker);
  tables->strips_first_space = add_prefix;
  return absl::OkStatus();
}

// What the two kinds of vocabularies of characters have in common.
absl::Status ReadCharacters(const GgufFile& file, TokenizerTables* tables) {
  tables->alphabet = TokenizerTables::Alphabet::kCharacters;
  tables->space_marker = kSpaceMarker;
  tables->normalizer.AddReplace(" ", kSpaceMarker);
  tables->fuse_unknown = true;
  return ReadIfThere<int32_t>(file, "unknown_token_id", &tables->unknown_id);
}

absl::Status ReadModel(const GgufFile& file, TokenizerTables* tables) {
  std::string_view model;
  if (auto s = Read(file, "model", &model); !s.ok()) return s;
  if (model != "gpt2" && model != "llama" && model != "gemma4") {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": tokenizer model '", Absl(model),
                                                 "' is not supported (supported: gpt2, llama, "
                                                 "gemma4)"));
  }
  if (model == "gpt2") {
    if (auto s = Read(file, "pre", &tables->pre_tokenizer); !s.ok()) return s;
  }
  if (auto s = Read(file, "tokens", &tables->tokens); !s.ok()) return s;
  if (auto s = ReadKinds(file, tables->tokens.size(), &tables->kinds); !s.ok()) return s;
  if (model == "gpt2") return ReadMerges(file, tables);
  if (model == "llama") {
    if (auto s = ReadSentencePiece(file, tables); !s.ok()) return s;
    return ReadCharacters(file, tables);
  }
  // Merges over characters.
  tables->pre_tokenizer = model;
  tables->byte_fallback = true;
  if (auto s = ReadMerges(file, tables); !s.ok()) return s;
  return ReadCharacters(file, tables);
}

// Phi-3's special tokens take the white space behind them, which the file doesn't say.
void AddPhi3Properties(const GgufFile& file, TokenizerTables* tables) {
  const auto architecture = file.Get<std::string_view>("general.architecture");
  if (!architecture.ok() || *architecture != "phi3" || tables->scores.empty()) return;
  std::vector<AddedToken>& added = tables->added_tokens.emplace();
  for (size_t id = 0; id < tables->kinds.size(); ++id) {
    const TokenKind kind = tables->kinds[id];
    const bool special = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    if (!special && kind != TokenKind::kUserDefined) continue;
    AddedToken& token = added.emplace_back();
    token.content = tables->tokens[id];
    token.id = static_cast<int32_t>(id);
    token.special = special;
    token.rstrip =
        token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
  }
}

absl::StatusOr<TokenizerTables> ReadTables(const GgufFile& file) {
  TokenizerTables tables;
  if (auto s = ReadModel(file, &tables); !s.ok()) return s;
  if (auto s = ReadIfThere<int32_t>(file, "bos_token_id", &tables.bos_id); !s.ok()) return s;
  if (auto s = ReadIfThere<int32_t>(file, "eos_token_id", &tables.eos_id); !s.ok()) return s;
  for (const char* name : {"eot_token_id", "eom_token_id"}) {
    std::optional<int32_t> id;
    if (auto s = ReadIfThere<int32_t>(file, name, &id); !s.ok()) return s;
    if (id) tables.more_stop_ids.push_back(*id);
  }
  if (auto s = ReadIfThere<bool>(file, "add_bos_token", &tables.add_bos); !s.ok()) return s;
  if (auto s = ReadIfThere<bool>(file, "add_eos_token", &tables.add_eos); !s.ok()) return s;
  if (file.Has("tokenizer.chat_template")) {
    absl::StatusOr<std::string_view> text = file.Get<std::string_view>("tokenizer.chat_template");
    if (!text.ok()) return text.status();
    tables.chat_template = *text;
  }
  AddPhi3Properties(file, &tables);
  return tables;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromGguf(const GgufFile& file) {
  absl::StatusOr<TokenizerTables> tables = ReadTables(file);
  if (!tables.ok()) return tables.status();
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Create(*tables);
  if (!tokenizer.ok()) {
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(file.path(), ": tokenizer: ", tokenizer.status().message()));
  }
  return tokenizer;
}

}  // namespace isobit
