#ifndef ISOBIT_RUNTIME_MODEL_CONFIG_H_
#define ISOBIT_RUNTIME_MODEL_CONFIG_H_

// The numbers that define a dense decoder. Plain values.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/receipt/digest.h"

namespace isobit {

struct ModelConfig {
  std::string family;  // "llama"
  std::string name;    // as the file calls it; for people
  int64_t layers = 0;
  int64_t width = 0;
  int64_t ffn_width = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t vocab = 0;
  int64_t context_length = 0;
  float norm_eps = 0;
  double rope_theta = 0;
  int rotary_dim = 0;
  bool tied_embedding = false;

  // bf16 keys and values of all layers.
  int64_t KvBytesPerToken() const { return int64_t{4} * layers * kv_heads * head_dim; }

  // OK, or InvalidArgument that names the number and its limit.
  absl::Status Validate() const;
  // Adds every number that decides bits.
  void AddTo(DigestBuilder& digest) const;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_CONFIG_H_
