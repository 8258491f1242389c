#include "runtime/model/config.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

constexpr int64_t kMaxContext = 1 << 24;

absl::Status CheckRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be in [", low, ", ", high, "], got ", value));
}

// Written so that NaN fails.
absl::Status CheckReal(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be in [", low, ", ", high, "], got ", value));
}

absl::Status ValidateRotary(const Rotary& rotary, int rotary_dim) {
  const RopeScaling& s = rotary.scaling;
  const struct {
    const char* name;
    double value, low, high;
  } ranges[] = {
      {"rope base", rotary.theta, 1, 1e12},
      {"rope scaling factor", s.factor, 1e-3, 1e6},
      {"rope low_freq_factor", s.low_freq_factor, 1e-3, 1e6},
      {"rope high_freq_factor", s.high_freq_factor, 1e-3, 1e6},
      {"rope original context", s.original_max_positions, 1, 1 << 24},
      {"rope beta_fast", s.beta_fast, 1e-3, 1e6},
      {"rope beta_slow", s.beta_slow, 1e-3, 1e6},
      {"rope attention factor", static_cast<double>(s.attention_factor), 1e-3, 1e3},
  };
  for (const auto& range : ranges) {
    if (absl::Status status = CheckReal(range.name, range.value, range.low, range.high);
        !status.ok()) {
      return status;
    }
  }
  if (s.kind == RopeScaling::Kind::kLlama3 && !(s.low_freq_factor < s.high_freq_factor)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope low_freq_factor must be below high_freq_factor, got ", s.low_freq_factor,
                     " and ", s.high_freq_factor));
  }
  if (s.kind == RopeScaling::Kind::kYarn && !(rotary.theta > 1)) {
    return absl::InvalidArgumentError("yarn needs a rope base above 1");
  }
  if (!rotary.divisors.empty() && rotary.divisors.size() != static_cast<size_t>(rotary_dim / 2)) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", rotary.divisors.size(),
                                                   " rope divisors for ", rotary_dim / 2,
                                                   " rotated pairs"));
  }
  for (const float divisor : rotary.divisors) {
    if (absl::Status status = CheckReal("rope divisor", divisor, 1e-3, 1e6); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateLayers(const ModelConfig& c) {
  if (c.attention.empty()) return absl::OkStatus();
  if (c.attention.size() != static_cast<size_t>(c.layers)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the kind of ", c.attention.size(), " layers is given, there are ", c.layers));
  }
  for (const LayerAttention& layer : c.attention) {
    if (absl::Status s = CheckRange("sliding window", layer.window, 0, 1 << 24); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ValidateDeviations(const ModelConfig& c) {
  for (const Rotary& rotary : c.rotary) {
    if (absl::Status s = ValidateRotary(rotary, c.rotary_dim); !s.ok()) return s;
  }
  if (c.long_rotary) {
    if (absl::Status s = ValidateRotary(*c.long_rotary, c.rotary_dim); !s.ok()) return s;
  }
  if (absl::Status s = CheckRange("long context length", c.long_context_length, 0, kMaxContext);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = ValidateLayers(c); !s.ok()) return s;
  const struct {
    const char* name;
    double value, low, high;
  } ranges[] = {
      {"softmax scale", c.softmax_scale, 0, 1e4},
      {"score cap", c.score_cap, 0, 1e6},
      {"logit cap", c.logit_cap, 0, 1e6},
      {"embedding scale", c.embedding_scale, 1e-6, 1e6},
      {"residual scale", c.residual_scale, 1e-6, 1e6},
      {"logit scale", c.logit_scale, 1e-6, 1e6},
  };
  for (const auto& range : ranges) {
    if (absl::Status s = CheckReal(range.name, range.value, range.low, range.high); !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

void AddRotary(const Rotary& rotary, DigestBuilder& digest) {
  const RopeScaling& s = rotary.scaling;
  digest.Add(int64_t{static_cast<int>(s.kind)}).Add(s.factor);
  if (s.kind == RopeScaling::Kind::kLlama3) {
    digest.Add(s.low_freq_factor).Add(s.high_freq_factor).Add(s.original_max_positions);
  }
  if (s.kind == RopeScaling::Kind::kYarn) {
    digest.Add(s.beta_fast).Add(s.beta_slow).Add(s.original_max_positions);
    digest.Add(int64_t{s.truncate ? 1 : 0});
  }
  digest.AddBits(s.attention_factor).Add(int64_t{static_cast<int64_t>(rotary.divisors.size())});
  for (const float divisor : rotary.divisors) digest.AddBits(divisor);
}

bool IsPlain(const Rotary& rotary) {
  return rotary.scaling.kind == RopeScaling::Kind::kNone && rotary.divisors.empty() &&
         rotary.scaling.attention_factor == 1.0f;
}

// A deviation enters by its name and value, and only where it deviates: so a new one leaves the
// digests of all other models as they are.
void AddDeviations(const ModelConfig& c, DigestBuilder& digest) {
  const ModelConfig plain;
  if (c.rotary.size() > 1 || !IsPlain(c.rotary[0])) {
    digest.Add("rotary").Add(static_cast<int64_t>(c.rotary.size()));
    for (const Rotary& rotary : c.rotary) {
      digest.Add(rotary.theta);
      AddRotary(rotary, digest);
    }
  }
  bool layers_differ = false;
  for (const LayerAttention& layer : c.attention) layers_differ |= layer != LayerAttention{};
  if (layers_differ) {
    digest.Add("layers");
    for (const LayerAttention& layer : c.attention) {
      digest.Add(int64_t{layer.window}).Add(int64_t{layer.rotary});
    }
  }
  const struct {
    const char* name;
    int value, usual;
  } choices[] = {
      {"norm_placement", static_cast<int>(c.norm_placement),
       static_cast<int>(plain.norm_placement)},
      {"wide_norms", c.wide_norms, plain.wide_norms},
      {"query_key_norm", static_cast<int>(c.query_key_norm),
       static_cast<int>(plain.query_key_norm)},
      {"activation", static_cast<int>(c.activation), static_cast<int>(plain.activation)},
      {"qkv_bias", c.qkv_bias, plain.qkv_bias},
      {"attention_out_bias", c.attention_out_bias, plain.attention_out_bias},
  };
  for (const auto& choice : choices) {
    if (choice.value != choice.usual) digest.Add(choice.name).Add(int64_t{choice.value});
  }
  const struct {
    const char* name;
    double value, usual;
  } numbers[] = {
      {"softmax_scale", c.softmax_scale, plain.softmax_scale},
      {"score_cap", c.score_cap, plain.score_cap},
      {"logit_cap", c.logit_cap, plain.logit_cap},
      {"embedding_scale", c.embedding_scale, plain.embedding_scale},
      {"residual_scale", c.residual_scale, plain.residual_scale},
      {"logit_scale", c.logit_scale, plain.logit_scale},
  };
  for (const auto& number : numbers) {
    if (number.value != number.usual) digest.Add(number.name).Add(number.value);
  }
}

std::string DescribeScaling(const Rotary& rotary) {
  static constexpr const char* kNames[] = {"none", "linear", "llama3", "yarn"};
  const RopeScaling& s = rotary.scaling;
  if (!rotary.divisors.empty()) return "rope frequencies divided by a table";
  return absl::StrCat("rope scaling ", kNames[static_cast<int>(s.kind)], " by ", s.factor);
}

std::string DescribeLayers(const ModelConfig& c) {
  int64_t windows = 0, window = 0, unrotated = 0;
  for (const LayerAttention& layer : c.attention) {
    windows += layer.window != 0;
    if (layer.window != 0) window = layer.window;
    unrotated += layer.rotary == kNoRotation;
  }
  std::string text;
  if (windows != 0) text = absl::StrCat("window of ", window, " in ", windows, " layers");
  if (unrotated == 0) return text;
  return absl::StrCat(text, text.empty() ? "" : ", ", unrotated, " layers without rotation");
}

}  // namespace

std::string ModelConfig::DescribeDeviations() const {
  const std::string layers_text = DescribeLayers(*this);
  const struct {
    bool has;
    std::string text;
  } parts[] = {
      {!IsPlain(rotary[0]), DescribeScaling(rotary[0])},
      {rotary.size() > 1, "a second rope base"},
      {!layers_text.empty(), layers_text},
      {norm_placement == NormPlacement::kAfter, "norms after layers instead of before"},
      {norm_placement == NormPlacement::kSandwich, "norms before and after layers"},
      {wide_norms, "norms that round once"},
      {query_key_norm == QueryKeyNorm::kPerHead, "norms of query and key heads"},
      {query_key_norm == QueryKeyNorm::kFull, "norms of all query and all key heads"},
      {activation == Activation::kGeluTanh, "GELU"},
      {qkv_bias, "biases of query, key and value"},
      {attention_out_bias, "bias of the attention output"},
      {softmax_scale != 0, absl::StrCat("softmax scale ", softmax_scale)},
      {score_cap != 0, absl::StrCat("scores capped at ", score_cap)},
      {logit_cap != 0, absl::StrCat("logits capped at ", logit_cap)},
      {embedding_scale != 1, absl::StrCat("embedding times ", embedding_scale)},
      {residual_scale != 1, absl::StrCat("layers times ", residual_scale)},
      {logit_scale != 1, absl::StrCat("logits times ", logit_scale)},
  };
  std::string text;
  for (const auto& part : parts) {
    if (part.has) absl::StrAppend(&text, text.empty() ? "" : ", ", part.text);
  }
  return text;
}

absl::StatusOr<ModelConfig> ModelConfig::For(int64_t max_positions) const {
  const int64_t longest = std::max(context_length, long_context_length);
  if (max_positions < 0 || max_positions > longest) {
    return absl::OutOfRangeError(absl::StrCat("max-model-len must be in [1, ", longest,
                                              "], the model's context length, got ",
                                              max_positions));
  }
  ModelConfig config = *this;
  if (max_positions > context_length) {
    config.rotary[0] = *long_rotary;
    config.context_length = long_context_length;
  }
  // A window that no text can exceed is none, and must not show in the digest.
  for (LayerAttention& layer : config.attention) {
    if (layer.window >= config.context_length) layer.window = 0;
  }
  return config;
}

std::vector<double> Rotary::InverseFrequencies(int rotary_dim) const {
  std::vector<double> inv_freq(static_cast<size_t>(rotary_dim / 2));
  RopeInvFreq(rotary_dim, theta, inv_freq.data());
  ScaleRopeInvFreq(scaling, theta, rotary_dim / 2, inv_freq.data());
  for (size_t i = 0; i < divisors.size(); ++i) {
    inv_freq[i] = ieee::Div(inv_freq[i], static_cast<double>(divisors[i]));
  }
  return inv_freq;
}

absl::Status ModelConfig::Validate() const {
  const struct {
    const char* name;
    int64_t value, low, high;
  } ranges[] = {
      {"number of layers", layers, 1, 1024},
      {"hidden width", width, 1, 1 << 17},
      {"feed-forward width", ffn_width, 1, 1 << 19},
      {"number of query heads", heads, 1, 4096},
      {"number of key heads", kv_heads, 1, heads},
      {"head size", head_dim, 1, 1024},
      {"vocabulary size", vocab, 1, 1 << 22},
      {"context length", context_length, 1, kMaxContext},
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
  return ValidateDeviations(*this);
}

void ModelConfig::AddTo(DigestBuilder& digest) const {
  // context_length is left out: it limits requests and changes no bit of those that fit. So are
  // names: equal functions of equal weights have equal digests, whatever they are called. The first
  // field dates from when there was one family.
  digest.Add("llama");
  for (int64_t value :
       {layers, width, ffn_width, int64_t{heads}, int64_t{kv_heads}, int64_t{head_dim}, vocab,
        int64_t{rotary_dim}, int64_t{tied_embedding ? 1 : 0}}) {
    digest.Add(value);
  }
  digest.AddBits(norm_eps).Add(rotary[0].theta);
  AddDeviations(*this, digest);
}

}  // namespace isobit
