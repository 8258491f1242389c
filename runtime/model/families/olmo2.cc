// OLMo 2: norms after attention and feed-forward layers instead of before, norms of all query and
// all key heads of a row together; every norm rounds once.

#include "runtime/model/decoder_config.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

constexpr TensorName kNames[] = {
    {Role::kAttentionPostNorm, "post_attention_layernorm.weight", "post_attention_norm.weight"},
    {Role::kFfnPostNorm, "post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
};

void ReadOlmo2(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {}, config);
  in.Expect({"attention_bias", ""}, false);
  config.norm_placement = NormPlacement::kAfter;
  config.wide_norms = true;
  config.query_key_norm = QueryKeyNorm::kFull;
}

}  // namespace

const Family kOlmo2 = {.name = "olmo2",
                       .hugging_face = "olmo2",
                       .gguf = "olmo2",
                       .tensor_names = kNames,
                       .read = ReadOlmo2};

}  // namespace isobit
