// Gemma 1 to 3, text: GeGLU, an embedding scaled by the root of the width, norms by 1 + w that
// round once. Gemma 2 adds norms after the layers, capped scores and logits, and a window in every
// other layer; Gemma 3 norms of query and key heads instead of caps, a window in five layers of
// six, and a rotation of its own for those.

#include <string_view>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "runtime/model/decoder_config.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

constexpr TensorName kSandwichNames[] = {
    {Role::kAttentionPostNorm, "post_attention_layernorm.weight", "post_attention_norm.weight"},
    {Role::kFfnNorm, "pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {Role::kFfnPostNorm, "post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
};

void ReadAnyGemma(ConfigReader& in, std::string_view activation_alias, ModelConfig& config) {
  ReadDecoder(in,
              {.tied_embedding = true,
               .activation = "gelu_pytorch_tanh",
               .activation_alias = activation_alias},
              config);
  in.Expect({"attention_bias", ""}, false);
  config.activation = Activation::kGeluTanh;
  config.wide_norms = true;
  // The models were trained with this factor in bf16.
  const auto width = static_cast<double>(config.width);
  config.embedding_scale = ToFloat(RoundToBf16(static_cast<float>(ieee::Sqrt(width))));
}

// The first release says "gelu" and means the tanh form, as transformers knows.
void ReadGemma(ConfigReader& in, ModelConfig& config) { ReadAnyGemma(in, "gelu", config); }

// 1 / sqrt(query_pre_attn_scalar). GGUF files don't have the scalar: it is the head size, but in
// the largest model of a generation the width of a head's share.
void ReadScoreScale(ConfigReader& in, int64_t layers_of_largest, ModelConfig& config) {
  const int64_t usual = config.layers == layers_of_largest && config.heads > 0
                            ? config.width / config.heads
                            : config.head_dim;
  const ConfigKey key = {"query_pre_attn_scalar", ""};
  const double scalar = in.Real(key, static_cast<double>(usual));
  if (!(scalar > 0)) return in.Contradiction(key, "must be positive, got ", scalar);
  if (scalar != config.head_dim) config.softmax_scale = ieee::Div(1.0, ieee::Sqrt(scalar));
}

void ReadGemma2(ConfigReader& in, ModelConfig& config) {
  ReadAnyGemma(in, {}, config);
  config.norm_placement = NormPlacement::kSandwich;
  ReadScoreScale(in, 46, config);
  config.score_cap =
      static_cast<float>(in.Real({"attn_logit_softcapping", "attn_logit_softcapping"}, 0.0));
  config.logit_cap =
      static_cast<float>(in.Real({"final_logit_softcapping", "final_logit_softcapping"}, 0.0));
  SetWindows(
      in, in.Integer(kSlidingWindow, 4096), [](int64_t layer) { return layer % 2 == 0; }, config);
}

// The layers with a window rotate by a base of their own and without scaling.
void ReadGemma3(ConfigReader& in, ModelConfig& config) {
  ReadAnyGemma(in, {}, config);
  config.norm_placement = NormPlacement::kSandwich;
  config.query_key_norm = QueryKeyNorm::kPerHead;
  ReadScoreScale(in, 62, config);
  for (const ConfigKey key :
       {ConfigKey{"attn_logit_softcapping", ""}, ConfigKey{"final_logit_softcapping", ""}}) {
    if (in.Has(key)) in.Refuse(key, "is not supported in this family");
  }
  in.Expect({"use_bidirectional_attention", ""}, false);
  const ConfigKey pattern = {"sliding_window_pattern", ""};
  if (const int64_t n = in.Integer(pattern, 6); n != 6 && !in.Has({"layer_types", ""})) {
    in.Refuse(pattern, "is ", n, ", which is not supported (supported: 6)");
  }
  SetWindows(
      in, in.Integer(kSlidingWindow, 4096), [](int64_t layer) { return layer % 6 != 5; }, config);

  constexpr std::string_view kLocal = "rope_parameters.sliding_attention.rope_theta";
  Rotary local;
  local.theta = in.Has({kLocal, ""})
                    ? in.Real({kLocal, ""})
                    : in.Real({"rope_local_base_freq", "rope.freq_base_swa"}, 10000.0);
  if (!in.is_gguf() && in.Has({"rope_parameters.full_attention", ""})) {
    Rotary& global = config.rotary[0];
    global.theta = in.Real({"rope_parameters.full_attention.rope_theta", ""});
    const ConfigKey type_key = {"rope_parameters.full_attention.rope_type", ""};
    const std::string type = in.Text(type_key, "default");
    if (type == "linear") {
      global.scaling.kind = RopeScaling::Kind::kLinear;
      global.scaling.factor = in.Real({"rope_parameters.full_attention.factor", ""});
    } else if (type != "default") {
      in.Refuse(type_key, "is '", type, "', which is not supported (supported: default, linear)");
    }
  }
  config.rotary.push_back(local);
  for (LayerAttention& layer : config.attention) {
    if (layer.window != 0) layer.rotary = 1;
  }
}

}  // namespace

const Family kGemma = {.name = "gemma",
                       .hugging_face = "gemma",
                       .gguf = "gemma",
                       .norms_less_one = true,
                       .read = ReadGemma};

const Family kGemma2 = {.name = "gemma2",
                        .hugging_face = "gemma2",
                        .gguf = "gemma2",
                        .norms_less_one = true,
                        .tensor_names = kSandwichNames,
                        .read = ReadGemma2};

const Family kGemma3 = {.name = "gemma3",
                        .hugging_face = "gemma3_text",
                        .gguf = "gemma3",
                        .norms_less_one = true,
                        .tensor_names = kSandwichNames,
                        .read = ReadGemma3};

}  // namespace isobit
