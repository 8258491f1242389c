// Qwen2 and 2.5: biases of query, key and value. Qwen3: norms of each query and key head instead.

#include "runtime/model/decoder_config.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

// The layers from max_window_layers on slide, if the window is in use at all.
void ReadWindow(ConfigReader& in, ModelConfig& config) {
  SetOptionalWindow(in, config);
  const int64_t full = in.Integer({"max_window_layers", ""}, 0);
  if (in.Has({"layer_types", ""})) return;
  for (int64_t i = 0; i < full && i < static_cast<int64_t>(config.attention.size()); ++i) {
    config.attention[static_cast<size_t>(i)].window = 0;
  }
}

void ReadQwen2(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {}, config);
  config.qkv_bias = true;
  ReadWindow(in, config);
}

void ReadQwen3(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {}, config);
  in.Expect({"attention_bias", ""}, false);
  config.query_key_norm = QueryKeyNorm::kPerHead;
  ReadWindow(in, config);
}

}  // namespace

const Family kQwen2 = {
    .name = "qwen2", .hugging_face = "qwen2", .gguf = "qwen2", .read = ReadQwen2};

const Family kQwen3 = {
    .name = "qwen3", .hugging_face = "qwen3", .gguf = "qwen3", .read = ReadQwen3};

}  // namespace isobit
