#ifndef ISOBIT_RUNTIME_MODEL_HF_CONFIG_H_
#define ISOBIT_RUNTIME_MODEL_HF_CONFIG_H_

// The JSON files of a Hugging Face folder that describe a model.

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "runtime/model/config_reader.h"
#include "runtime/model/generation_defaults.h"

namespace isobit {

// config.json, generation_config.json and their like are a few kilobytes.
inline constexpr size_t kMaxConfigBytes = size_t{16} << 20;

// The whole of a file of at most kMaxConfigBytes, which need not be there: empty then.
absl::StatusOr<std::string> ReadIfThere(const std::string& path);

// Text of config.json. What newer versions of transformers keep in rope_parameters is put where
// older ones have it (rope_theta, rope_scaling). Errors name `path`.
absl::StatusOr<nlohmann::json> ParseHfConfig(std::string_view text, const std::string& path);

// eos_token_id of a config: one id, several, or none.
absl::StatusOr<std::vector<int32_t>> ReadEosIds(const nlohmann::json& config,
                                                const std::string& path);

// Text of generation_config.json. Errors name `path` and the key.
absl::StatusOr<GenerationDefaults> ParseGenerationDefaults(std::string_view text,
                                                           const std::string& path);

// Those of a folder; none if it has no such file.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& folder);

class HfConfigReader : public ConfigReader {
 public:
  // Both must outlive the reader; `path` is config.json's.
  HfConfigReader(const nlohmann::json& config, std::string path, const TensorStore& tensors)
      : ConfigReader(tensors), config_(config), path_(std::move(path)) {}

  bool is_gguf() const override { return false; }
  bool Has(ConfigKey key) const override;

 protected:
  std::string Where(ConfigKey key) const override;
  absl::Status Read(ConfigKey key, std::optional<int64_t>& out) const override;
  absl::Status Read(ConfigKey key, std::optional<double>& out) const override;
  absl::Status Read(ConfigKey key, std::optional<bool>& out) const override;
  absl::Status Read(ConfigKey key, std::optional<std::string>& out) const override;
  absl::Status Read(ConfigKey key, std::optional<std::vector<int64_t>>& out) const override;
  absl::Status Read(ConfigKey key, std::optional<std::vector<double>>& out) const override;
  absl::Status Read(ConfigKey key, std::optional<std::vector<std::string>>& out) const override;

 private:
  // Null if missing, or null in the file.
  const nlohmann::json* Find(ConfigKey key) const;
  template <typename T>
  absl::Status ReadScalar(ConfigKey key, std::optional<T>& out) const;
  template <typename T>
  absl::Status ReadArray(ConfigKey key, std::optional<std::vector<T>>& out) const;

  const nlohmann::json& config_;
  const std::string path_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_HF_CONFIG_H_
