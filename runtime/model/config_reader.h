#ifndef ISOBIT_RUNTIME_MODEL_CONFIG_READER_H_
#define ISOBIT_RUNTIME_MODEL_CONFIG_READER_H_

// Numbers of a model's configuration by name, from GGUF metadata or from config.json alike.
//
// The first error is kept, names the file and the key, and makes all later reads give their
// fallback; so a family reads all that it needs and asks for the status once.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/model/stored_tensor.h"

namespace isobit {

// One number's name in each format. GGUF keys stand without the architecture before them. An empty
// name: that format does not have it, and the fallback holds.
struct ConfigKey {
  std::string_view hugging_face;  // "rope_scaling.factor" is factor inside of rope_scaling
  std::string_view gguf;
};

class ConfigReader {
 public:
  explicit ConfigReader(const TensorStore& tensors) : tensors_(tensors) {}
  virtual ~ConfigReader() = default;

  virtual bool is_gguf() const = 0;
  virtual bool Has(ConfigKey key) const = 0;

  // Required.
  int64_t Integer(ConfigKey key);
  double Real(ConfigKey key);
  // With a fallback for a key that is missing, or null.
  int64_t Integer(ConfigKey key, int64_t fallback);
  double Real(ConfigKey key, double fallback);
  bool Flag(ConfigKey key, bool fallback);
  std::string Text(ConfigKey key, std::string_view fallback);
  // Empty if missing.
  std::vector<int64_t> Integers(ConfigKey key);
  std::vector<double> Reals(ConfigKey key);
  std::vector<std::string> Texts(ConfigKey key);

  // The tensors that the configuration belongs to, under the file's names.
  const TensorStore& tensors() const { return tensors_; }

  // What is not supported, or contradicts itself; the message begins with the file and the key.
  template <typename... Text>
  void Refuse(ConfigKey key, const Text&... text) {
    Fail(absl::UnimplementedError(absl::StrCat(Where(key), " ", text...)));
  }
  template <typename... Text>
  void Contradiction(ConfigKey key, const Text&... text) {
    Fail(absl::InvalidArgumentError(absl::StrCat(Where(key), " ", text...)));
  }
  // Refuses any other value than `expected`; a missing key is as if it had it.
  void Expect(ConfigKey key, bool expected);

  const absl::Status& status() const { return status_; }

 protected:
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  // "model.gguf: llama.block_count", "folder/config.json: num_hidden_layers"
  virtual std::string Where(ConfigKey key) const = 0;
  // Nothing if the key is missing; an error, without file and key, if it is of another type.
  virtual absl::Status Read(ConfigKey key, std::optional<int64_t>& out) const = 0;
  virtual absl::Status Read(ConfigKey key, std::optional<double>& out) const = 0;
  virtual absl::Status Read(ConfigKey key, std::optional<bool>& out) const = 0;
  virtual absl::Status Read(ConfigKey key, std::optional<std::string>& out) const = 0;
  virtual absl::Status Read(ConfigKey key, std::optional<std::vector<int64_t>>& out) const = 0;
  virtual absl::Status Read(ConfigKey key, std::optional<std::vector<double>>& out) const = 0;
  virtual absl::Status Read(ConfigKey key, std::optional<std::vector<std::string>>& out) const = 0;

 private:
  template <typename T>
  T Take(ConfigKey key, T fallback, bool required);

  const TensorStore& tensors_;
  absl::Status status_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_CONFIG_READER_H_
