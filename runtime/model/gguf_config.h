#ifndef ISOBIT_RUNTIME_MODEL_GGUF_CONFIG_H_
#define ISOBIT_RUNTIME_MODEL_GGUF_CONFIG_H_

#include <string>

#include "runtime/model/config_reader.h"
#include "runtime/model/gguf.h"

namespace isobit {

// The metadata of a GGUF file: keys of `architecture`.
class GgufConfigReader : public ConfigReader {
 public:
  // All must outlive the reader.
  GgufConfigReader(const GgufFile& file, std::string architecture, const TensorStore& tensors)
      : ConfigReader(tensors), file_(file), architecture_(std::move(architecture)) {}

  bool is_gguf() const override { return true; }
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
  std::string FullKey(ConfigKey key) const;
  // Null if missing.
  const GgufField* Find(ConfigKey key) const;
  template <typename Stored, typename T>
  absl::Status ReadAs(ConfigKey key, std::optional<T>& out) const;

  const GgufFile& file_;
  const std::string architecture_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_GGUF_CONFIG_H_
