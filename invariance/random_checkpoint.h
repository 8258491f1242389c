#ifndef ISOBIT_INVARIANCE_RANDOM_CHECKPOINT_H_
#define ISOBIT_INVARIANCE_RANDOM_CHECKPOINT_H_

// A model of any shape with seeded random weights, without a file: to compare backends on the
// widths of real models, and to time them.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/checkpoint.h"

namespace isobit {

// Shapes of published models by name, for models without a file.
const std::map<std::string, ModelConfig>& KnownShapes();

class RandomCheckpoint : public Checkpoint {
 public:
  // The same config and seed give the same weights on every machine. Its tokenizer has a token for
  // each byte. REQUIRES: config.Validate() is OK, and a vocabulary of at least 256.
  RandomCheckpoint(const ModelConfig& config, uint64_t seed) : config_(config), seed_(seed) {}

  const ModelConfig& config() const override { return config_; }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer() const override;
  MatrixSource Matrix(Role role, int64_t layer) const override;
  std::vector<float> Vector(Role role, int64_t layer) const override;
  void Release(Role /*role*/, int64_t /*layer*/) const override {}
  std::string Describe() const override { return "random weights"; }

 private:
  uint64_t SeedOf(Role role, int64_t layer) const;

  const ModelConfig config_;
  const uint64_t seed_;
};

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_RANDOM_CHECKPOINT_H_
