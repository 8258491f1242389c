#include "runtime/model/decoder_config.h"

#include <cmath>
#include <string>
#include <vector>

#include "runtime/model/rope_config.h"

namespace isobit {
namespace {

constexpr ConfigKey kHeads = {"num_attention_heads", "attention.head_count"};
constexpr ConfigKey kKvHeads = {"num_key_value_heads", "attention.head_count_kv"};
constexpr ConfigKey kHeadDim = {"head_dim", "attention.key_length"};
constexpr ConfigKey kRotaryDim = {"partial_rotary_factor", "rope.dimension_count"};

constexpr ConfigKey kLayerTypes = {"layer_types", ""};
constexpr char kSliding[] = "sliding_attention";

// A size that ModelConfig keeps as an int; the narrower limits are Validate's.
int Narrow(ConfigReader& in, ConfigKey key, int64_t value) {
  constexpr int64_t kMax = 1 << 16;
  if (value >= 0 && value <= kMax) return static_cast<int>(value);
  in.Contradiction(key, "must be in [0, ", kMax, "], got ", value);
  return 0;
}

void ReadHeads(ConfigReader& in, ModelConfig& c) {
  c.heads = Narrow(in, kHeads, in.Integer(kHeads));
  c.kv_heads = Narrow(in, kKvHeads, in.Integer(kKvHeads, c.heads));
  const int64_t usual = c.heads > 0 ? c.width / c.heads : 0;
  c.head_dim = Narrow(in, kHeadDim, in.Integer(kHeadDim, usual));
  const ConfigKey value_dim = {"", "attention.value_length"};
  if (const int64_t n = in.Integer(value_dim, c.head_dim); n != c.head_dim) {
    in.Refuse(value_dim, "is ", n, ", keys have ", c.head_dim,
              ": value heads of another size are not supported");
  }
  if (in.is_gguf()) {
    c.rotary_dim = Narrow(in, kRotaryDim, in.Integer(kRotaryDim, c.head_dim));
  } else {
    const double share = in.Real(kRotaryDim, 1.0);
    if (!(share >= 0 && share <= 1)) {
      in.Contradiction(kRotaryDim, "must be in [0, 1], got ", share);
    } else {
      c.rotary_dim = static_cast<int>(share * c.head_dim);
    }
  }
}

void ReadVocabulary(ConfigReader& in, const DecoderDefaults& defaults, ModelConfig& c) {
  if (!in.is_gguf()) {
    c.vocab = in.Integer({"vocab_size", ""});
    c.tied_embedding = in.Flag({"tie_word_embeddings", ""}, defaults.tied_embedding);
    return;
  }
  const StoredTensor* embedding = in.tensors().FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    in.Contradiction({"", "vocab_size"}, "can't be told: tensor token_embd.weight is ",
                     embedding == nullptr ? "missing" : "no matrix");
    return;
  }
  c.vocab = embedding->shape[0];
  c.tied_embedding = in.tensors().FindTensor("output.weight") == nullptr;
}

void RefuseOtherKinds(ConfigReader& in, const DecoderDefaults& defaults) {
  for (const ConfigKey key : {ConfigKey{"num_local_experts", "expert_count"},
                              ConfigKey{"num_experts", ""}, ConfigKey{"n_routed_experts", ""}}) {
    if (const int64_t experts = in.Integer(key, 0); experts != 0) {
      in.Refuse(key, "is ", experts, ": mixture of experts is not supported");
    }
  }
  if (in.Has({"quantization_config", ""})) {
    in.Refuse({"quantization_config", ""},
              "is there: quantised safetensors are not supported, only F32, F16 and BF16");
  }
  for (const ConfigKey key : {ConfigKey{"hidden_act", ""}, ConfigKey{"hidden_activation", ""}}) {
    const std::string activation = in.Text(key, defaults.activation);
    if (key.hugging_face == "hidden_act" && activation == defaults.activation_alias) continue;
    if (activation != std::string(defaults.activation)) {
      in.Refuse(key, "is '", activation, "', this family has only '",
                std::string(defaults.activation), "'");
    }
  }
}

void CheckLayerTypes(ConfigReader& in, const ModelConfig& c) {
  const std::vector<std::string> types = in.Texts(kLayerTypes);
  if (!types.empty() && types.size() != static_cast<size_t>(c.layers)) {
    in.Contradiction(kLayerTypes, "has ", types.size(), " entries for ", c.layers, " layers");
  }
  for (const std::string& type : types) {
    if (type == kSliding || type == "full_attention") continue;
    in.Refuse(kLayerTypes, "has '", type, "' (supported: full_attention, ", kSliding, ")");
  }
}

}  // namespace

void ReadDecoder(ConfigReader& in, const DecoderDefaults& defaults, ModelConfig& c) {
  c.layers = in.Integer({"num_hidden_layers", "block_count"});
  c.width = in.Integer({"hidden_size", "embedding_length"});
  c.ffn_width = in.Integer({"intermediate_size", "feed_forward_length"});
  c.context_length = in.Integer({"max_position_embeddings", "context_length"});
  c.norm_eps = static_cast<float>(in.Real({"rms_norm_eps", "attention.layer_norm_rms_epsilon"}));
  ReadHeads(in, c);
  ReadVocabulary(in, defaults, c);
  RefuseOtherKinds(in, defaults);
  if (in.status().ok() && (c.layers < 1 || c.layers > 1024)) {
    in.Contradiction({"num_hidden_layers", "block_count"}, "must be in [1, 1024], got ", c.layers);
  }
  CheckLayerTypes(in, c);
  ReadRotary(in, c);
}

std::vector<LayerAttention>& AttentionOfLayers(ModelConfig& c) {
  c.attention.resize(static_cast<size_t>(c.layers));
  return c.attention;
}

void SetWindows(ConfigReader& in, int64_t window, bool (*slides)(int64_t layer), ModelConfig& c) {
  const std::vector<std::string> types = in.Texts(kLayerTypes);
  if (!in.status().ok()) return;
  if (window < 0) return in.Contradiction(kSlidingWindow, "must be positive, got ", window);
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const bool sliding =
        types.empty() ? slides(layer) : types[static_cast<size_t>(layer)] == kSliding;
    if (sliding && window > 0) {
      AttentionOfLayers(c)[static_cast<size_t>(layer)].window = Narrow(in, kSlidingWindow, window);
    } else if (sliding && !types.empty()) {
      return in.Contradiction(kLayerTypes, "has '", kSliding, "' for layer ", layer,
                              ", but no sliding_window is in use");
    }
  }
}

void SetOptionalWindow(ConfigReader& in, ModelConfig& c) {
  const bool in_use = in.Flag({"use_sliding_window", ""}, false);
  SetWindows(
      in, in_use ? in.Integer({"sliding_window", ""}, 0) : 0, [](int64_t) { return true; }, c);
}

}  // namespace isobit
