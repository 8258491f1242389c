#ifndef ISOBIT_RUNTIME_MODEL_DECODER_CONFIG_H_
#define ISOBIT_RUNTIME_MODEL_DECODER_CONFIG_H_

// What the configurations of all families have in common. Errors are left with the reader.

#include <cstdint>
#include <string_view>

#include "runtime/model/config.h"
#include "runtime/model/config_reader.h"

namespace isobit {

// What a config.json means that does not say it.
struct DecoderDefaults {
  bool tied_embedding = false;
  std::string_view activation = "silu";    // the only one that the family has
  std::string_view activation_alias = {};  // what its hidden_act may be called too
};

// Sizes, heads, rotation with its scaling, tied embedding.
void ReadDecoder(ConfigReader& in, const DecoderDefaults& defaults, ModelConfig& config);

inline constexpr ConfigKey kSlidingWindow = {"sliding_window", "attention.sliding_window"};

// Gives the layers for which `slides` a sliding window, or those that layer_types names if
// config.json has it; 0: there is none.
void SetWindows(ConfigReader& in, int64_t window, bool (*slides)(int64_t layer),
                ModelConfig& config);

// In every layer, or in those of layer_types, if config.json says that its window is in use.
void SetOptionalWindow(ConfigReader& in, ModelConfig& config);

// One entry a layer, to be changed. REQUIRES: a number of layers.
std::vector<LayerAttention>& AttentionOfLayers(ModelConfig& config);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_DECODER_CONFIG_H_
