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

void ReadLlama3(ConfigReader& in, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::kLlama3;
  scaling.factor = in.Real(kFactor);
  scaling.low_freq_factor = in.Real({"rope_scaling.low_freq_factor", ""});
  scaling.high_freq_factor = in.Real({"rope_scaling.high_freq_factor", ""});
  scaling.original_max_positions = static_cast<double>(in.Integer(kOriginal));
}

void ReadYarn(ConfigReader& in, const ModelConfig& c, RopeScaling& scaling) {
  for (const ConfigKey key : {ConfigKey{"rope_scaling.mscale", "rope.scaling.yarn_log_multiplier"},
                              ConfigKey{"rope_scaling.mscale_all_dim", ""}}) {
    if (in.Has(key)) in.Refuse(key, "is not supported");
  }
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = in.Real(kFactor);
  scaling.original_max_positions = static_cast<double>(in.Integer(kOriginal, c.context_length));
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

// Phi-3's two tables of divisors: one up to the original context, one beyond. Which of them holds
// depends on how long a text grows, so a key would have to be rotated anew when it does. The first
// is a function of the position alone: with it, the model serves its original context.
void ReadLongRope(ConfigReader& in, ModelConfig& c) {
  Rotary& rotary = c.rotary[0];
  const ConfigKey mscale = {"rope_scaling.short_mscale", ""};
  if (in.Has(mscale)) in.Refuse(mscale, "is not supported");
  const ConfigKey at_top = {"original_max_position_embeddings", ""};
  const int64_t original = in.Integer(in.Has(at_top) ? at_top : kOriginal);
  if (!in.status().ok()) return;
  if (original < 2) return in.Contradiction(kOriginal, "must be at least 2, got ", original);
  if (in.is_gguf()) {
    const StoredTensor* tensor = in.tensors().FindTensor(kShortFactors);
    if (tensor == nullptr) return in.Contradiction(kType, "needs tensor ", kShortFactors);
    rotary.divisors = ReadVector(in, *tensor);
  } else {
    const std::vector<double> factors = in.Reals({"rope_scaling.short_factor", ""});
    rotary.divisors.assign(factors.begin(), factors.end());
  }
  const double stretch = static_cast<double>(c.context_length) / static_cast<double>(original);
  double usual = 1.0;
  if (stretch > 1.0) {
    usual =
        ieee::Sqrt(ieee::Add(1.0, ieee::Div(LogDoubleDouble(stretch).high,
                                            LogDoubleDouble(static_cast<double>(original)).high)));
  }
  rotary.scaling.attention_factor = static_cast<float>(in.Real(kAttentionFactor, usual));
  c.context_length = std::min(c.context_length, original);
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
  } else if (type != "default" && type != "none") {
    in.Refuse(kType, "is '", type,
              "', which is not supported (supported: default, linear, llama3, yarn, longrope)");
  }
  const StoredTensor* table = in.is_gguf() ? in.tensors().FindTensor("rope_freqs.weight") : nullptr;
  if (table == nullptr || !in.status().ok()) return;
  const std::vector<float> divisors = ReadVector(in, *table);
  if (!IsLlama3Table(divisors, c, rotary.scaling)) rotary.divisors = divisors;
}

}  // namespace isobit
