// Llama 1, 2, 3.x and the many models of its shape; Mistral, which adds a sliding window.

#include "runtime/model/decoder_config.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

void ReadLlama(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {}, config);
  const bool biased = in.is_gguf() ? in.tensors().FindTensor("blk.0.attn_q.bias") != nullptr
                                   : in.Flag({"attention_bias", ""}, false);
  config.qkv_bias = biased;
  config.attention_out_bias =
      in.is_gguf() ? in.tensors().FindTensor("blk.0.attn_output.bias") != nullptr : biased;
  in.Expect({"mlp_bias", ""}, false);
}

void ReadMistral(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {}, config);
  SetWindows(
      in, in.Integer({"sliding_window", ""}, 0), [](int64_t) { return true; }, config);
}

}  // namespace

const Family kLlama = {.name = "llama",
                       .hugging_face = "llama",
                       .gguf = "llama",
                       .gguf_interleaves_heads = true,
                       .read = ReadLlama};

const Family kMistral = {.name = "mistral", .hugging_face = "mistral", .read = ReadMistral};

}  // namespace isobit
