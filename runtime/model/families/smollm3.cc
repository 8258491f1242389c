// SmolLM3: layers without rotation, by default every fourth.

#include <vector>

#include "runtime/model/decoder_config.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

constexpr ConfigKey kRotates = {"no_rope_layers", ""};  // despite its name, 1 where a layer rotates
constexpr ConfigKey kInterval = {"no_rope_layer_interval", ""};

void ReadSmolLm3(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {.tied_embedding = true}, config);
  in.Expect({"attention_bias", ""}, false);
  in.Expect({"mlp_bias", ""}, false);
  const std::vector<int64_t> rotates = in.Integers(kRotates);
  const int64_t interval = in.Integer(kInterval, 4);
  if (!in.status().ok()) return;
  if (!rotates.empty() && rotates.size() != static_cast<size_t>(config.layers)) {
    return in.Contradiction(kRotates, "has ", rotates.size(), " entries for ", config.layers,
                            " layers");
  }
  if (interval < 1) return in.Contradiction(kInterval, "must be positive, got ", interval);
  for (int64_t i = 0; i < config.layers; ++i) {
    const bool does = rotates.empty() ? (i + 1) % interval != 0 : rotates[size_t(i)] != 0;
    if (!does) AttentionOfLayers(config)[size_t(i)].rotary = kNoRotation;
  }
  SetOptionalWindow(in, config);
}

}  // namespace

const Family kSmolLm3 = {.name = "smollm3",
                         .hugging_face = "smollm3",
                         .gguf = "smollm3",
                         .gguf_interleaves_heads = true,
                         .read = ReadSmolLm3};

}  // namespace isobit
