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

absl::StatusOr<TokenizerTables> ReadTables(const GgufFile& file) {
  TokenizerTables tables;
  std::string_view model;
  if (auto s = Read(file, "model", &model); !s.ok()) return s;
  if (model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat(file.path(), ": tokenizer model '", Absl(model),
                                                 "' is not supported (supported: gpt2)"));
  }
  if (auto s = Read(file, "pre", &tables.pre_tokenizer); !s.ok()) return s;
  if (auto s = Read(file, "tokens", &tables.tokens); !s.ok()) return s;
  if (auto s = ReadKinds(file, tables.tokens.size(), &tables.kinds); !s.ok()) return s;
  if (auto s = Read(file, "merges", &tables.merges); !s.ok()) return s;
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
