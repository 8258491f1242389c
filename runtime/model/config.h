#ifndef ISOBIT_RUNTIME_MODEL_CONFIG_H_
#define ISOBIT_RUNTIME_MODEL_CONFIG_H_

// The numbers that define a dense decoder, and where it deviates from the plain one: pre-norm,
// RoPE in every layer, SwiGLU, no biases. A family of models is a set of deviations; the forward
// pass knows these and no family. Plain values.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/rope.h"
#include "runtime/receipt/digest.h"

namespace isobit {

// One table of rotations.
struct Rotary {
  double theta = 10000;
  RopeScaling scaling = {};
  std::vector<float> divisors = {};  // of the frequencies, one a pair; empty: none

  // One a pair, with scaling and divisors.
  std::vector<double> InverseFrequencies(int rotary_dim) const;
};

inline constexpr int kNoRotation = -1;

struct LayerAttention {
  int window = 0;  // 0: all keys
  int rotary = 0;  // which of ModelConfig::rotary, or kNoRotation

  friend bool operator==(const LayerAttention&, const LayerAttention&) = default;
};

enum class NormPlacement {
  kBefore,    // of attention and of the feed-forward layer
  kAfter,     // on what they return, before it is added to the residual stream
  kSandwich,  // both
};

enum class QueryKeyNorm {
  kNone,
  kPerHead,  // each head by itself
  kFull,     // all heads of a row together
};

enum class Activation { kSilu, kGeluTanh };

struct ModelConfig {
  std::string family = {};  // for people, as is `name`; in no digest
  std::string name = {};    // as the file calls it
  int64_t layers = 0;
  int64_t width = 0;
  int64_t ffn_width = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t vocab = 0;
  int64_t context_length = 0;  // the longest text
  float norm_eps = 0;
  int rotary_dim = 0;
  std::vector<Rotary> rotary = {Rotary{}};
  bool tied_embedding = false;

  // Rotations for longer contexts that depend on how long a text is (longrope, dynamic) would have
  // keys rotated anew as a text grows past context_length. So the whole text has this one, and only
  // if longer texts were asked for (For): a function of the position alone.
  int64_t long_context_length = 0;  // 0: there is none
  std::optional<Rotary> long_rotary = std::nullopt;

  // Deviations; the values here are the plain decoder's.
  std::vector<LayerAttention> attention = {};  // one a layer; empty: all as LayerAttention{}
  NormPlacement norm_placement = NormPlacement::kBefore;
  bool wide_norms = false;  // fp32 norm weights and one rounding (contract 3)
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  Activation activation = Activation::kSilu;
  bool qkv_bias = false;
  bool attention_out_bias = false;
  double softmax_scale = 0;  // 0: 1 / sqrt(head_dim)
  float score_cap = 0;       // of attention scores; 0: none
  float logit_cap = 0;       // 0: none
  float embedding_scale = 1;
  float residual_scale = 1;  // of what attention and feed-forward layers return
  float logit_scale = 1;

  LayerAttention AttentionOf(int64_t layer) const {
    return attention.empty() ? LayerAttention{} : attention[static_cast<size_t>(layer)];
  }
  // Whether nothing stands between the fused projection and the rotation: QkvProjection of
  // kernels/ops.h.
  bool ProjectsToCache() const { return query_key_norm == QueryKeyNorm::kNone; }
  bool norms_before() const { return norm_placement != NormPlacement::kAfter; }
  bool norms_after() const { return norm_placement != NormPlacement::kBefore; }

  // What texts of up to `max_positions` tokens meet, 0: of context_length. OutOfRange if the model
  // is not made for so many.
  absl::StatusOr<ModelConfig> For(int64_t max_positions) const;

  // Numbers a row: all query heads, all key heads (as many as values), and all three.
  int64_t q_width() const { return int64_t{heads} * head_dim; }
  int64_t kv_width() const { return int64_t{kv_heads} * head_dim; }
  int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  // bf16 keys and values of all layers.
  int64_t KvBytesPerToken() const { return 4 * layers * kv_width(); }

  // Where the model deviates from the plain decoder, for people: "biases, window of 4096 in 14
  // layers". Empty if nowhere.
  std::string DescribeDeviations() const;

  // OK, or InvalidArgument that names the number and its limit.
  absl::Status Validate() const;
  // Adds every number that decides bits.
  void AddTo(DigestBuilder& digest) const;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_CONFIG_H_
