#ifndef ISOBIT_KERNELS_NUMERICS_ROPE_H_
#define ISOBIT_KERNELS_NUMERICS_ROPE_H_

// Rotary position embeddings (contract 5).
//
// Tables of cos and sin in fp32 are made at load time from double arithmetic of our own, so that
// every machine has the same ones. Pairs are in Hugging Face's order: dimension i is rotated with
// dimension i + rotary_dim / 2. Checkpoints in the interleaved order are permuted when loaded.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/double_double.h"
#include "kernels/numerics/host_device.h"

namespace isobit {

// ---- Frequencies

// inv_freq[i] = the double nearest to theta^(-2 i / rotary_dim), for i < rotary_dim / 2.
// REQUIRES: rotary_dim even and positive, 1 <= theta <= 2^100.
ISOBIT_HOST_DEVICE inline void RopeInvFreq(int rotary_dim, double theta, double* inv_freq) {
  const DoubleDouble log_theta = LogDoubleDouble(theta);
  for (int i = 0; i < rotary_dim / 2; ++i) {
    const DoubleDouble exponent =
        Divide({static_cast<double>(-2 * i), 0.0}, {static_cast<double>(rotary_dim), 0.0});
    inv_freq[i] = ExpDoubleDouble(Multiply(exponent, log_theta));
  }
}

// How a model stretches its frequencies to a longer context. Schemes that are tables in the
// checkpoint need no kind here: whoever loads them divides inv_freq itself.
struct RopeScaling {
  enum class Kind {
    kNone,
    kLinear,  // inv_freq / factor
    kLlama3,  // Llama 3.1: by wavelength against the original context
    kYarn,    // YaRN, arXiv:2309.00071: by dimension, between the turns beta_fast and beta_slow
  };
  Kind kind = Kind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;            // kLlama3
  double high_freq_factor = 4.0;           // kLlama3
  double original_max_positions = 8192.0;  // kLlama3, kYarn
  double beta_fast = 32.0;                 // kYarn
  double beta_slow = 1.0;                  // kYarn
  bool truncate = true;                    // kYarn: the ramp's ends are whole dimensions
  float attention_factor = 1.0f;           // cos and sin are multiplied by it
};

// 0.1 ln(factor) + 1, the attention factor that YaRN recommends, rounded once to fp32.
ISOBIT_HOST_DEVICE inline float YarnAttentionFactor(double factor) {
  if (!(factor > 1.0)) return 1.0f;
  return static_cast<float>(ieee::Add(ieee::Mul(0.1, LogDoubleDouble(factor).high), 1.0));
}

namespace rope_internal {

inline constexpr double kTwoPi = 0x1.921fb54442d18p+2;

// The dimension that makes `turns` turns over the original context.
ISOBIT_HOST_DEVICE inline double YarnDimension(const RopeScaling& scaling, double turns,
                                               int rotary_dim, double log_theta) {
  const double ratio = ieee::Div(scaling.original_max_positions, ieee::Mul(turns, kTwoPi));
  const double log_ratio =
      ratio >= 1.0 ? LogDoubleDouble(ratio).high : -LogDoubleDouble(ieee::Div(1.0, ratio)).high;
  return ieee::Div(ieee::Mul(static_cast<double>(rotary_dim), log_ratio),
                   ieee::Mul(2.0, log_theta));
}

// The largest integer not above x, |x| < 2^31.
ISOBIT_HOST_DEVICE inline double Floor(double x) {
  const auto whole = static_cast<double>(static_cast<int64_t>(x));
  return whole > x ? whole - 1.0 : whole;
}

ISOBIT_HOST_DEVICE inline void ScaleByYarn(const RopeScaling& scaling, double theta, int pairs,
                                           double* inv_freq) {
  const double log_theta = LogDoubleDouble(theta).high;
  double low = YarnDimension(scaling, scaling.beta_fast, 2 * pairs, log_theta);
  double high = YarnDimension(scaling, scaling.beta_slow, 2 * pairs, log_theta);
  if (scaling.truncate) {
    low = Floor(low);
    high = -Floor(-high);
  }
  if (low < 0.0) low = 0.0;
  if (high > 2 * pairs - 1) high = 2 * pairs - 1;
  if (low == high) high = ieee::Add(high, 0.001);
  for (int i = 0; i < pairs; ++i) {
    double ramp = ieee::Div(ieee::Sub(static_cast<double>(i), low), ieee::Sub(high, low));
    ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
    const double scaled = ieee::Div(inv_freq[i], scaling.factor);
    inv_freq[i] = ieee::Add(ieee::Mul(scaled, ramp), ieee::Mul(inv_freq[i], ieee::Sub(1.0, ramp)));
  }
}

ISOBIT_HOST_DEVICE inline double ScaleByLlama3(const RopeScaling& scaling, double inv_freq) {
  // Turns that this frequency makes over the original context: many turns keep the frequency, few
  // are scaled in full, between the two it is blended.
  const double scaled = ieee::Div(inv_freq, scaling.factor);
  const double wavelength = ieee::Div(kTwoPi, inv_freq);
  const double turns = ieee::Div(scaling.original_max_positions, wavelength);
  if (turns > scaling.high_freq_factor) return inv_freq;
  if (turns < scaling.low_freq_factor) return scaled;
  const double blend = ieee::Div(ieee::Sub(turns, scaling.low_freq_factor),
                                 ieee::Sub(scaling.high_freq_factor, scaling.low_freq_factor));
  return ieee::Add(ieee::Mul(ieee::Sub(1.0, blend), scaled), ieee::Mul(blend, inv_freq));
}

}  // namespace rope_internal

// Applies the scaling in place, in the double operations written here. `theta` is what inv_freq was
// made from.
ISOBIT_HOST_DEVICE inline void ScaleRopeInvFreq(const RopeScaling& scaling, double theta, int pairs,
                                                double* inv_freq) {
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      return;
    case RopeScaling::Kind::kLinear:
      for (int i = 0; i < pairs; ++i) inv_freq[i] = ieee::Div(inv_freq[i], scaling.factor);
      return;
    case RopeScaling::Kind::kLlama3:
      for (int i = 0; i < pairs; ++i) {
        inv_freq[i] = rope_internal::ScaleByLlama3(scaling, inv_freq[i]);
      }
      return;
    case RopeScaling::Kind::kYarn:
      rope_internal::ScaleByYarn(scaling, theta, pairs, inv_freq);
      return;
  }
}

// ---- Cos and sin

struct CosSin {
  float cos;
  float sin;
};

// cos and sin of `angle` radians in fp32: the nearest fp32, but for angles next to multiples of
// pi/2 or results next to a tie, where the error stays below 0.6 ulp. REQUIRES: |angle| <= 2^30.
ISOBIT_HOST_DEVICE inline CosSin CosSinOf(double angle) {
  // angle = n pi/2 + x, |x| <= pi/4. With pi/2 as two doubles and the difference in double double,
  // x has nearly always its full accuracy; for the angles nearest to a multiple of pi/2, where x is
  // around 2^-58, still 26 bits.
  constexpr double kRoundToInteger = 0x1.8p+52;
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr DoubleDouble kHalfPi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  const double n = ieee::Sub(ieee::Fma(angle, kTwoOverPi, kRoundToInteger), kRoundToInteger);
  DoubleDouble r = Add({angle, 0.0}, TwoProduct(-n, kHalfPi.high));
  r = Add(r, TwoProduct(-n, kHalfPi.low));
  const double x = r.high;

  // Taylor series, whose error here is below 2^-53.
  const double x2 = ieee::Mul(x, x);
  double s = -0x1.ae7f3e733b81fp-41;  // -1/15!
  s = ieee::Fma(s, x2, 0x1.6124613a86d09p-33);
  s = ieee::Fma(s, x2, -0x1.ae64567f544e4p-26);
  s = ieee::Fma(s, x2, 0x1.71de3a556c734p-19);
  s = ieee::Fma(s, x2, -0x1.a01a01a01a01ap-13);
  s = ieee::Fma(s, x2, 0x1.1111111111111p-7);
  s = ieee::Fma(s, x2, -0x1.5555555555555p-3);
  const double sine = ieee::Fma(ieee::Mul(x2, x), s, x);
  double c = 0x1.ae7f3e733b81fp-45;  // 1/16!
  c = ieee::Fma(c, x2, -0x1.93974a8c07c9dp-37);
  c = ieee::Fma(c, x2, 0x1.1eed8eff8d898p-29);
  c = ieee::Fma(c, x2, -0x1.27e4fb7789f5cp-22);
  c = ieee::Fma(c, x2, 0x1.a01a01a01a01ap-16);
  c = ieee::Fma(c, x2, -0x1.6c16c16c16c17p-10);
  c = ieee::Fma(c, x2, 0x1.5555555555555p-5);
  c = ieee::Fma(c, x2, -0.5);
  const double cosine = ieee::Fma(x2, c, 1.0);

  // Turn by the quadrant.
  const int quadrant = static_cast<int>(static_cast<int64_t>(n) & 3);
  const double turned_cos = (quadrant & 1) != 0 ? sine : cosine;
  const double turned_sin = (quadrant & 1) != 0 ? cosine : sine;
  return {static_cast<float>(quadrant == 1 || quadrant == 2 ? -turned_cos : turned_cos),
          static_cast<float>(quadrant >= 2 ? -turned_sin : turned_sin)};
}

// One row of the tables: cos and sin of the double product position * inv_freq[i], each times the
// attention factor in fp32. REQUIRES: 0 <= position <= 2^24.
ISOBIT_HOST_DEVICE inline void RopeTableRow(int64_t position, const double* inv_freq, int pairs,
                                            float* cos, float* sin, float attention_factor = 1.0f) {
  for (int i = 0; i < pairs; ++i) {
    const CosSin value = CosSinOf(ieee::Mul(static_cast<double>(position), inv_freq[i]));
    cos[i] = ieee::Mul(value.cos, attention_factor);
    sin[i] = ieee::Mul(value.sin, attention_factor);
  }
}

// ---- Rotation

ISOBIT_HOST_DEVICE inline void RotatePair(float x1, float x2, float cos, float sin, float* y1,
                                          float* y2) {
  *y1 = ieee::Fma(x1, cos, -ieee::Mul(x2, sin));
  *y2 = ieee::Fma(x2, cos, ieee::Mul(x1, sin));
}

// Rotates one head and rounds to bf16; dimensions from rotary_dim on are copied. `out` may be `x`.
ISOBIT_HOST_DEVICE inline void RotateHead(const Bf16* x, int head_dim, int rotary_dim,
                                          const float* cos, const float* sin, Bf16* out) {
  const int pairs = rotary_dim / 2;
  for (int i = 0; i < pairs; ++i) {
    float y1 = 0.0f, y2 = 0.0f;
    RotatePair(ToFloat(x[i]), ToFloat(x[i + pairs]), cos[i], sin[i], &y1, &y2);
    out[i] = RoundToBf16(y1);
    out[i + pairs] = RoundToBf16(y2);
  }
  for (int i = rotary_dim; i < head_dim; ++i) out[i] = x[i];
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_ROPE_H_
