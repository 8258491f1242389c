#include "runtime/model/config.h"

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

absl::Status CheckRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be in [", low, ", ", high, "], got ", value));
}

}  // namespace

absl::Status ModelConfig::Validate() const {
  const struct {
    const char* name;
    int64_t value, low, high;
  } ranges[] = {
      {"number of layers", layers, 1, 1024},         {"hidden width", width, 1, 1 << 17},
      {"feed-forward width", ffn_width, 1, 1 << 19}, {"number of query heads", heads, 1, 4096},
      {"number of key heads", kv_heads, 1, heads},   {"head size", head_dim, 1, 1024},
      {"vocabulary size", vocab, 1, 1 << 22},        {"context length", context_length, 1, 1 << 24},
      {"rotary size", rotary_dim, 0, head_dim},
  };
  for (const auto& range : ranges) {
    if (absl::Status s = CheckRange(range.name, range.value, range.low, range.high); !s.ok()) {
      return s;
    }
  }
  if (heads % kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "query heads must be a multiple of key heads, got ", heads, " and ", kv_heads));
  }
  if (rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("rotary size must be even, got ", rotary_dim));
  }
  // Written so that NaN fails.
  if (!(norm_eps > 0 && norm_eps < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("norm epsilon must be in (0, 1), got ", norm_eps));
  }
  if (!(rope_theta >= 1 && rope_theta <= 1e12)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope base must be in [1, 1e12], got ", rope_theta));
  }
  return absl::OkStatus();
}

void ModelConfig::AddTo(DigestBuilder& digest) const {
  // context_length is left out: it limits requests and changes no bit of those that fit.
  digest.Add(family);
  for (int64_t value :
       {layers, width, ffn_width, int64_t{heads}, int64_t{kv_heads}, int64_t{head_dim}, vocab,
        int64_t{rotary_dim}, int64_t{tied_embedding ? 1 : 0}}) {
    digest.Add(value);
  }
  digest.AddBits(norm_eps).Add(rope_theta);
}

}  // namespace isobit
