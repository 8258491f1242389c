#include "runtime/model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/numerics/double_double.h"
#include "kernels/numerics/rope.h"
#include "runtime/model/widen.h"

namespace isobit {
namespace {

constexpr ConfigKey kType = {"rope_scaling.rope_type", "rope.scaling.type"};
constexpr ConfigKey kOldType = {"rope_scaling.type", ""};
constexpr ConfigKey kFactor = {"rope_scaling.factor", "rope.scaling.factor"};
constexpr ConfigKey kOriginal = {"rope_scaling.original_max_position_embeddings",
                                 "rope.scaling.original_context_length"};
constexpr ConfigKey kAttentionFactor = {"rope_scaling.attention_factor",
                                        "rope.scaling.attn_factor"};

constexpr char kShortFactors[] = "rope_factors_short.weight";
constexpr char kLongFactors[] = "rope_factors_long.weight";

void ReadLlama3(ConfigReader& in, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = in.Real(kFactor);
  scaling.low_freq_factor = in.Real({"rope_scaling.low_freq_factor", ""});
  scaling.high_freq_factor = in.Real({"rope_scaling.high_freq_factor", ""});
  scaling.original_max_positions = static_cast<double>(in.Integer(kOriginal));
}

void ReadYarn(ConfigReader& in, ModelConfig& c, RopeScaling& scaling) {
  for (const ConfigKey key : {ConfigKey{"rope_scaling.mscale", "rope.scaling.yarn_log_multiplier"},
                              ConfigKey{"rope_scaling.mscale_all_dim", ""}}) {
    if (in.Has(key)) in.Refuse(key, "is not supported");
  }
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = in.Real(kFactor);
  const int64_t original = in.Integer(kOriginal, c.context_length);
  scaling.original_max_positions = static_cast<double>(original);
  // Some files leave max_position_embeddings at the original context.
  const double stretched = ieee::Mul(scaling.original_max_positions, scaling.factor);
  if (in.Has(kOriginal) && stretched <= 0x1p24) {
    c.context_length = std::max(c.context_length, static_cast<int64_t>(stretched));
  }
  scaling.beta_fast = in.Real({"rope_scaling.beta_fast", "rope.scaling.yarn_beta_fast"}, 32.0);
  scaling.beta_slow = in.Real({"rope_scaling.beta_slow", "rope.scaling.yarn_beta_slow"}, 1.0);
  scaling.truncate = in.Flag({"rope_scaling.truncate", ""}, true);
  const float usual = YarnAttentionFactor(scaling.factor);
  // GGUF's factor is on top of the usual one, Hugging Face's in its place.
  scaling.attention_factor =
      in.is_gguf() ? ieee::Mul(usual, static_cast<float>(in.Real(kAttentionFactor, 1.0)))
                   : static_cast<float>(in.Real(kAttentionFactor, usual));
}

std::vector<float> ReadVector(ConfigReader& in, const StoredTensor& tensor) {
  if (tensor.shape.size() != 1 || tensor.shape[0] > 4096 || !CheckWidenable(tensor.type).ok()) {
    in.Contradiction(kType, "can't be told: tensor ", std::string(tensor.name), " is ",
                     PrintShape(tensor.shape), " in ", std::string(NameOf(tensor.type)));
    return {};
  }
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
  DequantizeRow(tensor.type, tensor.data, tensor.shape[0], values.data());
  return values;
}

// GGUF files have Llama 3's scaling as a table, made in fp32 by libraries that differ in their last
// bits. Where a table is that of the published parameters, we take these: so the same model has the
// same rotation from every file. False if it is another table.
bool IsLlama3Table(const std::vector<float>& divisors, const ModelConfig& c, RopeScaling& scaling) {
  constexpr double kTolerance = 2e-4;  // of fp32 arithmetic, blended with factors up to 32
  const int pairs = c.rotary_dim / 2;
  if (divisors.size() != static_cast<size_t>(pairs) || pairs == 0) return false;
  RopeScaling candidate;  // low, high and original context as published
  candidate.kind = RopeScaling::Kind::kLlama3;
  candidate.factor = *std::max_element(divisors.begin(), divisors.end());
  if (!(candidate.factor >= 1.0 && candidate.factor <= 1e6)) return false;
  std::vector<double> plain(divisors.size());
  RopeInvFreq(c.rotary_dim, c.rotary[0].theta, plain.data());
  std::vector<double> scaled = plain;
  ScaleRopeInvFreq(candidate, c.rotary[0].theta, pairs, scaled.data());
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double ratio = plain[i] / scaled[i] / static_cast<double>(divisors[i]);
    if (!(std::fabs(ratio - 1.0) < kTolerance)) return false;
  }
  scaling = candidate;
  return true;
}

// ln(a) / ln(b) as doubles, both rounded once.
double LogRatio(double a, double b) {
  return ieee::Div(LogDoubleDouble(a).high, LogDoubleDouble(b).high);
}

// One of Phi-3's two tables of divisors.
std::vector<float> ReadDivisors(ConfigReader& in, const char* hugging_face, const char* gguf) {
  if (!in.is_gguf()) {
    const std::vector<double> factors = in.Reals({hugging_face, ""});
    return {factors.begin(), factors.end()};
  }
  const StoredTensor* tensor = in.tensors().FindTensor(gguf);
  return tensor == nullptr ? std::vector<float>() : ReadVector(in, *tensor);
}

// Phi-3's two tables: one for texts up to the original context, one for longer ones.
void ReadLongRope(ConfigReader& in, ModelConfig& c) {
  Rotary& rotary = c.rotary[0];
  for (const ConfigKey key :
       {ConfigKey{"rope_scaling.short_mscale", ""}, ConfigKey{"rope_scaling.long_mscale", ""}}) {
    if (in.Has(key)) in.Refuse(key, "is not supported");
  }
  const ConfigKey at_top = {"original_max_position_embeddings", ""};
  const ConfigKey original_key = in.Has(at_top) ? at_top : kOriginal;
  const int64_t original = in.Integer(original_key);
  if (!in.status().ok()) return;
  if (original < 2) return in.Contradiction(original_key, "must be at least 2, got ", original);
  const auto longest = static_cast<double>(c.context_length);
  const double stretch = in.Real(kFactor, longest / static_cast<double>(original));
  if (!(stretch <= 1e6)) return in.Contradiction(kFactor, "must be at most 1e6, got ", stretch);
  const double usual =
      stretch > 1.0 ? ieee::Sqrt(ieee::Add(1.0, LogRatio(stretch, static_cast<double>(original))))
                    : 1.0;
  rotary.scaling.attention_factor = static_cast<float>(in.Real(kAttentionFactor, usual));
  rotary.divisors = ReadDivisors(in, "rope_scaling.short_factor", kShortFactors);
  if (rotary.divisors.empty()) return in.Contradiction(kType, "is longrope without short factors");
  if (c.context_length <= original) return;
  Rotary longer = rotary;
  longer.divisors = ReadDivisors(in, "rope_scaling.long_factor", kLongFactors);
  if (longer.divisors.empty()) {
    return in.Contradiction(kType, "is longrope without long factors, but the context of ",
                            c.context_length, " exceeds the original one of ", original);
  }
  c.long_rotary = longer;
  c.long_context_length = c.context_length;
  c.context_length = original;
}

// "Dynamic NTK": beyond the context that a model was trained for, the base of the rotation grows
// with the length n of the text, by (factor * n / context - (factor - 1))^(d / (d - 2)). Long texts
// get the base of the longest, n = factor * context.
void ReadDynamic(ConfigReader& in, ModelConfig& c) {
  const double factor = in.Real(kFactor);
  const double dims = c.rotary_dim;
  if (!in.status().ok() || c.context_length < 1) return;
  if (dims < 4) return in.Contradiction(kType, "is dynamic with ", dims, " rotated dimensions");
  if (!(factor >= 1.0 && factor <= 1024.0)) {
    return in.Contradiction(kFactor, "must be in [1, 1024], got ", factor);
  }
  const double longest = ieee::Mul(factor, static_cast<double>(c.context_length));
  if (longest < static_cast<double>(c.context_length + 1)) return;
  const double growth = ieee::Sub(ieee::Mul(factor, factor), ieee::Sub(factor, 1.0));
  const double exponent = ieee::Div(dims, ieee::Sub(dims, 2.0));
  Rotary longer = c.rotary[0];
  longer.theta = ieee::Mul(c.rotary[0].theta,
                           ExpDoubleDouble(Multiply(LogDoubleDouble(growth), {exponent, 0.0})));
  c.long_rotary = longer;
  c.long_context_length = static_cast<int64_t>(longest);
}

}  // namespace

void ReadRotary(ConfigReader& in, ModelConfig& c) {
  Rotary& rotary = c.rotary[0];
  rotary.theta = in.Real({"rope_theta", "rope.freq_base"}, 10000.0);
  // The older "type" is there beside the newer "rope_type" in some files. GGUF files of Phi-3 have
  // its tables without naming the scheme.
  std::string type = in.Has(kType) ? in.Text(kType, "") : in.Text(kOldType, "default");
  if (in.is_gguf() && in.tensors().FindTensor(kShortFactors) != nullptr) type = "longrope";
  if (!in.status().ok()) return;
  if (type == "linear") {
    rotary.scaling.kind = RopeScaling::Kind::kLinear;
    rotary.scaling.factor = in.Real(kFactor);
  } else if (type == "llama3" && !in.is_gguf()) {
    ReadLlama3(in, rotary.scaling);
  } else if (type == "yarn") {
    ReadYarn(in, c, rotary.scaling);
  } else if (type == "longrope" || type == "su") {
    ReadLongRope(in, c);
  } else if (type == "dynamic" && !in.is_gguf()) {
    ReadDynamic(in, c);
  } else if (type != "default" && type != "none") {
    in.Refuse(kType, "is '", type, "', which is not supported (supported: default, linear, ",
              in.is_gguf() ? "" : "llama3, dynamic, ", "yarn, longrope)");
  }
  const StoredTensor* table = in.is_gguf() ? in.tensors().FindTensor("rope_freqs.weight") : nullptr;
  if (table == nullptr || !in.status().ok()) return;
  const std::vector<float> divisors = ReadVector(in, *table);
  if (!IsLlama3Table(divisors, c, rotary.scaling)) rotary.divisors = divisors;
}

}  // namespace isobit
