// Granite 3: Llama with four multipliers.

#include "kernels/numerics/host_device.h"
#include "runtime/model/decoder_config.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

void ReadGranite(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {}, config);
  in.Expect({"attention_bias", ""}, false);
  in.Expect({"mlp_bias", ""}, false);
  // Through fp32, which is what GGUF files hold.
  const auto read = [&in](ConfigKey key) { return static_cast<float>(in.Real(key, 1.0)); };
  config.embedding_scale = read({"embedding_multiplier", "embedding_scale"});
  config.residual_scale = read({"residual_multiplier", "residual_scale"});
  config.softmax_scale = read({"attention_multiplier", "attention.scale"});
  const ConfigKey logits = {"logits_scaling", "logit_scale"};
  const float divisor = read(logits);
  if (!(divisor > 0)) return in.Contradiction(logits, "must be positive, got ", divisor);
  config.logit_scale = ieee::Div(1.0f, divisor);
}

}  // namespace

const Family kGranite = {.name = "granite",
                         .hugging_face = "granite",
                         .gguf = "granite",
                         .gguf_interleaves_heads = true,
                         .read = ReadGranite};

}  // namespace isobit
