// Phi-3 and Phi-4-mini: query, key and value in one tensor, gate and up in one, sliding window.

#include "runtime/model/decoder_config.h"
#include "runtime/model/families/families.h"

namespace isobit {
namespace {

constexpr TensorName kNames[] = {
    {Role::kQuery, "self_attn.qkv_proj.weight", "attn_qkv.weight"},
    {Role::kKey, "self_attn.qkv_proj.weight", "attn_qkv.weight"},
    {Role::kValue, "self_attn.qkv_proj.weight", "attn_qkv.weight"},
    {Role::kGate, "mlp.gate_up_proj.weight", "ffn_up.weight"},
    {Role::kUp, "mlp.gate_up_proj.weight", "ffn_up.weight"},
};

void ReadPhi3(ConfigReader& in, ModelConfig& config) {
  ReadDecoder(in, {}, config);
  in.Expect({"attention_bias", ""}, false);
  SetWindows(
      in, in.Integer(kSlidingWindow, 0), [](int64_t) { return true; }, config);
}

}  // namespace

const Family kPhi3 = {.name = "phi3",
                      .hugging_face = "phi3",
                      .gguf = "phi3",
                      .tensor_names = kNames,
                      .read = ReadPhi3};

}  // namespace isobit
