#ifndef ISOBIT_RUNTIME_MODEL_TENSOR_ROLE_H_
#define ISOBIT_RUNTIME_MODEL_TENSOR_ROLE_H_

// What a tensor is for. A family of models says how each is called in a file.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/config.h"

namespace isobit {

enum class Role {
  // Of the model.
  kEmbedding,
  kFinalNorm,
  kLmHead,
  // Of each layer.
  kAttentionNorm,
  kQuery,
  kKey,
  kValue,
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryNorm,
  kKeyNorm,
  kAttentionOut,
  kAttentionOutBias,
  kAttentionPostNorm,
  kFfnNorm,
  kGate,
  kUp,
  kDown,
  kFfnPostNorm,
};

inline constexpr int kNoLayer = -1;

constexpr bool IsOfLayer(Role role) { return role >= Role::kAttentionNorm; }

// What a tensor must be called in digests, whatever the file calls it:
// "model.layers.0.self_attn.q_proj.weight". Names as Llama has them in Hugging Face's format, so
// that a name in an error is one that people know.
std::string CanonicalName(Role role, int64_t layer);

// {rows, cols} of a matrix, {n} of a vector. REQUIRES: a valid config.
std::vector<int64_t> ShapeOf(Role role, const ModelConfig& config);

// The roles that a model of this configuration has.
std::vector<Role> RolesOf(const ModelConfig& config);

// How one role is called in each format; the part behind "model.layers.N." or "blk.N." for roles of
// layers. Roles with the same name are fused in one tensor, their rows below each other in the
// order of Role.
struct TensorName {
  Role role;
  std::string_view hugging_face;
  std::string_view gguf;
};

// The names that most families use. What a family names otherwise overrides these.
std::span<const TensorName> UsualTensorNames();

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_TENSOR_ROLE_H_
