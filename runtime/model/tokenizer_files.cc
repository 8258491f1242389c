#include "runtime/model/tokenizer_files.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/json/strict_json.h"
#include "runtime/model/error_text.h"
#include "runtime/model/gguf.h"
#include "runtime/model/hf_config.h"
#include "runtime/model/memory_map.h"

namespace isobit {
namespace {

constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;

// Rows of the embedding, which may be more than the tokens that tokenizer.json lists.
absl::StatusOr<int64_t> ReadVocabSize(const nlohmann::json& config, const std::string& path) {
  int64_t size = 0;
  const auto found = config.find("vocab_size");
  if (found == config.end() || found->is_null()) return size;
  if (absl::Status s = ReadJson(*found, "vocab_size", size); !s.ok()) return WithPath(s, path);
  return size;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenFolder(const std::filesystem::path& folder) {
  HuggingFaceTokenizerFiles files;
  absl::StatusOr<std::string> text = ReadIfThere(folder / "config.json");
  if (!text.ok()) return text.status();
  if (!text->empty()) {
    const std::string path = folder / "config.json";
    const absl::StatusOr<nlohmann::json> config = ParseHfConfig(*text, path);
    if (!config.ok()) return config.status();
    const absl::StatusOr<int64_t> size = ReadVocabSize(*config, path);
    if (!size.ok()) return size.status();
    files.vocab_size = *size;
    absl::StatusOr<std::vector<int32_t>> ids = ReadEosIds(*config, path);
    if (!ids.ok()) return ids.status();
    files.stop_ids = *std::move(ids);
  }
  const absl::StatusOr<GenerationDefaults> defaults = ReadGenerationDefaults(folder);
  if (!defaults.ok()) return defaults.status();
  files.stop_ids.insert(files.stop_ids.end(), defaults->eos_ids.begin(), defaults->eos_ids.end());

  const absl::StatusOr<std::string> tokenizer =
      ReadSmallFile(folder / "tokenizer.json", kMaxTokenizerBytes);
  if (!tokenizer.ok()) return tokenizer.status();
  const absl::StatusOr<std::string> config = ReadIfThere(folder / "tokenizer_config.json");
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::string> chat_template = ReadIfThere(folder / "chat_template.jinja");
  if (!chat_template.ok()) return chat_template.status();
  files.tokenizer_json = *tokenizer;
  files.tokenizer_config_json = *config;
  files.chat_template_jinja = *chat_template;
  absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = Tokenizer::FromHuggingFace(files);
  if (loaded.ok()) return loaded;
  return absl::Status(loaded.status().code(),
                      absl::StrCat(folder.string(), "/", loaded.status().message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return OpenFolder(path);
  const absl::StatusOr<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  return Tokenizer::FromGguf(**file);
}

}  // namespace isobit
