#include "runtime/model/tensor_role.h"

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"

namespace isobit {
namespace {

constexpr TensorName kUsualNames[] = {
    {Role::kEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
    {Role::kFinalNorm, "model.norm.weight", "output_norm.weight"},
    {Role::kLmHead, "lm_head.weight", "output.weight"},
    {Role::kAttentionNorm, "input_layernorm.weight", "attn_norm.weight"},
    {Role::kQuery, "self_attn.q_proj.weight", "attn_q.weight"},
    {Role::kKey, "self_attn.k_proj.weight", "attn_k.weight"},
    {Role::kValue, "self_attn.v_proj.weight", "attn_v.weight"},
    {Role::kQueryBias, "self_attn.q_proj.bias", "attn_q.bias"},
    {Role::kKeyBias, "self_attn.k_proj.bias", "attn_k.bias"},
    {Role::kValueBias, "self_attn.v_proj.bias", "attn_v.bias"},
    {Role::kQueryNorm, "self_attn.q_norm.weight", "attn_q_norm.weight"},
    {Role::kKeyNorm, "self_attn.k_norm.weight", "attn_k_norm.weight"},
    {Role::kAttentionOut, "self_attn.o_proj.weight", "attn_output.weight"},
    {Role::kAttentionOutBias, "self_attn.o_proj.bias", "attn_output.bias"},
    {Role::kAttentionPostNorm, "post_self_attn_layernorm.weight", "post_attention_norm.weight"},
    {Role::kFfnNorm, "post_attention_layernorm.weight", "ffn_norm.weight"},
    {Role::kGate, "mlp.gate_proj.weight", "ffn_gate.weight"},
    {Role::kUp, "mlp.up_proj.weight", "ffn_up.weight"},
    {Role::kDown, "mlp.down_proj.weight", "ffn_down.weight"},
    {Role::kFfnPostNorm, "post_mlp_layernorm.weight", "post_ffw_norm.weight"},
};

constexpr bool InOrderOfRoles() {
  for (size_t i = 0; i < std::size(kUsualNames); ++i) {
    if (kUsualNames[i].role != static_cast<Role>(i)) return false;
  }
  return true;
}
static_assert(InOrderOfRoles() && std::size(kUsualNames) == size_t{1} + size_t(Role::kFfnPostNorm));

}  // namespace

std::span<const TensorName> UsualTensorNames() { return kUsualNames; }

std::string CanonicalName(Role role, int64_t layer) {
  const std::string_view name = kUsualNames[static_cast<size_t>(role)].hugging_face;
  if (!IsOfLayer(role)) return std::string(name);
  return absl::StrCat("model.layers.", layer, ".", Absl(name));
}

std::vector<int64_t> ShapeOf(Role role, const ModelConfig& c) {
  const bool full = c.query_key_norm == QueryKeyNorm::kFull;
  switch (role) {
    case Role::kEmbedding:
    case Role::kLmHead:
      return {c.vocab, c.width};
    case Role::kQuery:
      return {c.q_width(), c.width};
    case Role::kKey:
    case Role::kValue:
      return {c.kv_width(), c.width};
    case Role::kQueryBias:
      return {c.q_width()};
    case Role::kKeyBias:
    case Role::kValueBias:
      return {c.kv_width()};
    case Role::kQueryNorm:
      return {full ? c.q_width() : c.head_dim};
    case Role::kKeyNorm:
      return {full ? c.kv_width() : c.head_dim};
    case Role::kAttentionOut:
      return {c.width, c.q_width()};
    case Role::kGate:
    case Role::kUp:
      return {c.ffn_width, c.width};
    case Role::kDown:
      return {c.width, c.ffn_width};
    case Role::kFinalNorm:
    case Role::kAttentionNorm:
    case Role::kAttentionOutBias:
    case Role::kAttentionPostNorm:
    case Role::kFfnNorm:
    case Role::kFfnPostNorm:
      break;
  }
  return {c.width};
}

std::vector<Role> RolesOf(const ModelConfig& c) {
  std::vector<Role> roles = {Role::kEmbedding, Role::kFinalNorm};
  const auto add_if = [&roles](bool has, std::initializer_list<Role> more) {
    // One by one: g++ 13 warns of inserting a list, without reason.
    if (has) {
      for (const Role role : more) roles.push_back(role);
    }
  };
  add_if(!c.tied_embedding, {Role::kLmHead});
  add_if(c.norms_before(), {Role::kAttentionNorm});
  add_if(true, {Role::kQuery, Role::kKey, Role::kValue});
  add_if(c.qkv_bias, {Role::kQueryBias, Role::kKeyBias, Role::kValueBias});
  add_if(c.query_key_norm != QueryKeyNorm::kNone, {Role::kQueryNorm, Role::kKeyNorm});
  add_if(true, {Role::kAttentionOut});
  add_if(c.attention_out_bias, {Role::kAttentionOutBias});
  add_if(c.norms_after(), {Role::kAttentionPostNorm});
  add_if(c.norms_before(), {Role::kFfnNorm});
  add_if(true, {Role::kGate, Role::kUp, Role::kDown});
  add_if(c.norms_after(), {Role::kFfnPostNorm});
  return roles;
}

}  // namespace isobit
