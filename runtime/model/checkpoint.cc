#include "runtime/model/checkpoint.h"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"
#include "runtime/model/family.h"
#include "runtime/model/gguf_config.h"
#include "runtime/model/gguf_parts.h"
#include "runtime/model/hf_config.h"
#include "runtime/model/memory_map.h"
#include "runtime/model/safetensors.h"
#include "runtime/model/tensor_map.h"
#include "runtime/model/tokenizer_files.h"

namespace isobit {
namespace {

absl::Status UnknownFamily(const std::string& where, std::string_view name, bool gguf) {
  return absl::UnimplementedError(absl::StrCat(
      where, " ", Quoted(name), " is not supported (supported: ", FamilyNames(gguf), ")"));
}

// Files of either format, once opened and found to fit their configuration.
class FileCheckpoint : public Checkpoint {
 public:
  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenGguf(const std::string& path);
  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenFolder(const std::string& path);

  const ModelConfig& config() const override { return config_; }
  GenerationDefaults generation_defaults() const override { return generation_defaults_; }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override {
    return load_tokenizer_();
  }
  MatrixSource Matrix(Role role, int64_t layer) const override { return map_->Matrix(role, layer); }
  std::vector<float> Vector(Role role, int64_t layer) const override {
    return map_->Vector(role, layer);
  }
  void Release(Role role, int64_t layer) const override { map_->Release(role, layer); }
  std::string Describe() const override;

 private:
  explicit FileCheckpoint(std::unique_ptr<TensorStore> tensors) : tensors_(std::move(tensors)) {}
  absl::Status ReadConfig(ConfigReader& in, const Family& family);

  std::unique_ptr<TensorStore> tensors_;
  ModelConfig config_;
  GenerationDefaults generation_defaults_;
  std::optional<TensorMap> map_;
  std::function<absl::StatusOr<std::unique_ptr<Tokenizer>>()> load_tokenizer_;
  std::string format_;  // "GGUF v3"
};

absl::Status FileCheckpoint::ReadConfig(ConfigReader& in, const Family& family) {
  config_.family = family.name;
  family.read(in, config_);
  if (!in.status().ok()) return in.status();
  if (absl::Status s = config_.Validate(); !s.ok()) return WithPath(s, tensors_->path());
  absl::StatusOr<TensorMap> map = TensorMap::Create(*tensors_, family, in.is_gguf(), config_);
  if (!map.ok()) return map.status();
  map_ = *std::move(map);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Checkpoint>> FileCheckpoint::OpenGguf(const std::string& path) {
  absl::StatusOr<std::unique_ptr<GgufParts>> parts = GgufParts::Open(path);
  if (!parts.ok()) return parts.status();
  const GgufFile& file = (*parts)->metadata();
  const auto architecture = file.Get<std::string_view>("general.architecture");
  if (!architecture.ok()) return architecture.status();
  const Family* family = FindFamily(/*gguf=*/true, *architecture);
  if (family == nullptr) return UnknownFamily(path + ": architecture", *architecture, true);
  const std::string split =
      (*parts)->files() > 1 ? absl::StrCat(" in ", (*parts)->files(), " parts") : "";

  std::unique_ptr<FileCheckpoint> checkpoint(new FileCheckpoint(*std::move(parts)));
  checkpoint->format_ = absl::StrCat("GGUF v", file.version(), split);
  checkpoint->load_tokenizer_ = [&file] { return Tokenizer::FromGguf(file); };
  if (const auto name = file.GetOr<std::string_view>("general.name", ""); name.ok()) {
    checkpoint->config_.name = *name;
  }
  GgufConfigReader reader(file, std::string(*architecture), *checkpoint->tensors_);
  if (absl::Status s = checkpoint->ReadConfig(reader, *family); !s.ok()) return s;
  return checkpoint;
}

absl::StatusOr<std::unique_ptr<Checkpoint>> FileCheckpoint::OpenFolder(const std::string& path) {
  const std::filesystem::path folder(path);
  const std::string config_path = folder / "config.json";
  absl::StatusOr<std::string> text = ReadSmallFile(config_path, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<nlohmann::json> config = ParseHfConfig(*text, config_path);
  if (!config.ok()) return config.status();
  const auto type = config->find("model_type");
  if (type == config->end() || !type->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(config_path, ": model_type is missing"));
  }
  const Family* family = FindFamily(/*gguf=*/false, type->get<std::string>());
  if (family == nullptr) {
    return UnknownFamily(config_path + ": model_type", type->get<std::string>(), false);
  }

  absl::StatusOr<std::unique_ptr<SafetensorsFolder>> tensors = SafetensorsFolder::Open(path);
  if (!tensors.ok()) return tensors.status();
  const size_t files = (*tensors)->files();
  std::unique_ptr<FileCheckpoint> checkpoint(new FileCheckpoint(*std::move(tensors)));
  checkpoint->format_ =
      absl::StrCat("safetensors", files > 1 ? absl::StrCat(" in ", files, " files") : "");
  // As people call it: the folder's name. "." and "x/" have none of their own.
  std::error_code ignored;
  checkpoint->config_.name = std::filesystem::canonical(folder, ignored).filename();
  absl::StatusOr<GenerationDefaults> defaults = ReadGenerationDefaults(folder);
  if (!defaults.ok()) return defaults.status();
  checkpoint->generation_defaults_ = *std::move(defaults);
  checkpoint->load_tokenizer_ = [path] { return OpenTokenizer(path); };
  HfConfigReader reader(*config, config_path, *checkpoint->tensors_);
  if (absl::Status s = checkpoint->ReadConfig(reader, *family); !s.ok()) return s;
  return checkpoint;
}

std::string FileCheckpoint::Describe() const {
  std::map<std::string_view, int> count;
  const std::vector<const StoredTensor*> tensors = tensors_->AllTensors();
  for (const StoredTensor* tensor : tensors) ++count[NameOf(tensor->type)];
  std::string text = absl::StrCat(format_, ", ", tensors.size(), " tensors:");
  const char* separator = " ";
  for (const auto& [type, n] : count) {
    absl::StrAppend(&text, separator, n, " ", Absl(type));
    separator = ", ";
  }
  if (format_.starts_with("GGUF")) return text + "; weights widened to bf16";
  const bool as_stored = count.size() == 1 && count.contains("BF16");
  return text + (as_stored ? "; used as stored" : "; weights rounded once to bf16");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? FileCheckpoint::OpenFolder(path)
                                                      : FileCheckpoint::OpenGguf(path);
}

}  // namespace isobit
