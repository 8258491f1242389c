#ifndef ISOBIT_KERNELS_NUMERICS_SAMPLING_H_
#define ISOBIT_KERNELS_NUMERICS_SAMPLING_H_

// Sampling and log-probabilities (contract 6).
//
// Softmax weights are integers, so their sums have no order: any number of threads may add them in
// any way. Each filter is a comparison of integers. A row's steps, in this order:
//   logit bias, penalties, temperature, min_p, top_k, top_p, draw; each filter on what the one
// before left.
//
// REQUIRES throughout: no logit is NaN or +infinity, and one at least is finite. Engines check that
// first and fail the row otherwise. -infinity marks a forbidden token: its weight is 0.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/scalar.h"

namespace isobit {

// ---- Order of tokens

// A key that is higher for a higher z; -0 and +0 are equal as numbers and get one key. NaN sorts
// below everything.
ISOBIT_HOST_DEVICE constexpr uint32_t OrderKey(float z) {
  if (IsNan(z)) return 0;
  const uint32_t bits = z == 0.0f ? 0u : FloatBits(z);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The total order of tokens as one integer: higher z first, then lower id. The largest is the
// greedy choice.
ISOBIT_HOST_DEVICE constexpr uint64_t RankKey(float z, uint32_t id) {
  return uint64_t{OrderKey(z)} << 32 | (0xffffffffu - id);
}
ISOBIT_HOST_DEVICE constexpr uint32_t RankKeyToken(uint64_t key) {
  return 0xffffffffu - static_cast<uint32_t>(key);
}

// ---- Edits of a logit, each one IEEE operation, in this order

ISOBIT_HOST_DEVICE inline float AddLogitBias(float logit, float bias) {
  return ieee::Add(logit, bias);
}

// For tokens in the prompt or the output so far.
ISOBIT_HOST_DEVICE inline float RepetitionPenalty(float logit, float penalty) {
  return logit > 0.0f ? ieee::Div(logit, penalty) : ieee::Mul(logit, penalty);
}

// For tokens in the output so far; count > 0 is how often.
ISOBIT_HOST_DEVICE inline float FrequencyPenalty(float logit, float penalty, int32_t count) {
  return ieee::Sub(logit, ieee::Mul(penalty, static_cast<float>(count)));
}
ISOBIT_HOST_DEVICE inline float PresencePenalty(float logit, float penalty) {
  return ieee::Sub(logit, penalty);
}

// All of them. `seen`: the token stands in the prompt or the output; `output_count`: how often in
// the output.
ISOBIT_HOST_DEVICE inline float EditLogit(float logit, float bias, bool seen, int32_t output_count,
                                          float repetition_penalty, float frequency_penalty,
                                          float presence_penalty) {
  logit = AddLogitBias(logit, bias);
  if (seen) logit = RepetitionPenalty(logit, repetition_penalty);
  if (output_count > 0) {
    logit = FrequencyPenalty(logit, frequency_penalty, output_count);
    logit = PresencePenalty(logit, presence_penalty);
  }
  return logit;
}

// Below this a temperature means greedy, as 0 does: logit / temperature would leave fp32.
inline constexpr float kMinTemperature = 1e-5f;

ISOBIT_HOST_DEVICE constexpr bool IsGreedy(float temperature) {
  return temperature < kMinTemperature;
}
ISOBIT_HOST_DEVICE inline float ApplyTemperature(float logit, float temperature) {
  return ieee::Div(logit, temperature);
}

// ---- Softmax in integers

inline constexpr int kWeightBits = 40;

// floor(exp(z - m) * 2^40), where m is the largest z of the row: 2^40 for the maximum itself.
ISOBIT_HOST_DEVICE inline uint64_t SoftmaxWeight(float z, float m) {
  const float e = Exp2(ieee::Mul(ieee::Sub(z, m), kLog2E));
  if (IsNan(e)) return 0;
  return static_cast<uint64_t>(ieee::Mul(e, 0x1p+40f));  // the product is exact
}

// log(exp(z - m) / sum), `sum` being the sum of SoftmaxWeight over the row.
ISOBIT_HOST_DEVICE inline float LogProb(float z, float m, uint64_t sum) {
  // The conversion rounds to nearest even, the product is exact.
  return Canonical(ieee::Sub(ieee::Sub(z, m), Log(ieee::Mul(static_cast<float>(sum), 0x1p-40f))));
}

// ---- Filters

// A probability as a multiple of 2^-32, rounded down. REQUIRES: 0 <= p <= 1.
ISOBIT_HOST_DEVICE constexpr uint64_t ProbabilityQ32(double p) {
  return static_cast<uint64_t>(p * 0x1p+32);
}

namespace sampling_internal {

struct Product128 {
  uint64_t high;
  uint64_t low;
};

ISOBIT_HOST_DEVICE inline Product128 Multiply(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return {__umul64hi(a, b), a * b};
#else
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return {static_cast<uint64_t>(product >> 64), static_cast<uint64_t>(product)};
#endif
}

}  // namespace sampling_internal

// min_p: keep a token if its weight >= this, that is if weight / 2^40 >= min_p.
ISOBIT_HOST_DEVICE constexpr uint64_t MinPThreshold(uint64_t min_p_q32) {
  return min_p_q32 << (kWeightBits - 32);
}

// top_p: going down the order, keep a token if the weights before it add up to less than this, that
// is if before * 2^32 < top_p_q32 * total. Never 0 for total > 0, so the first token stays.
// `total` is the sum over the tokens that min_p and top_k left.
ISOBIT_HOST_DEVICE inline uint64_t TopPThreshold(uint64_t top_p_q32, uint64_t total) {
  const uint64_t q32 = top_p_q32 == 0 ? 1 : top_p_q32;
  const sampling_internal::Product128 product = sampling_internal::Multiply(q32, total);
  const uint64_t floor = product.high << 32 | product.low >> 32;
  return floor + ((product.low & 0xffffffffu) != 0 ? 1 : 0);
}

// ---- Draw

// A number in [0, total): the token drawn is the first, in ascending id among those left, whose
// running sum of weights exceeds it. REQUIRES: total > 0.
ISOBIT_HOST_DEVICE inline uint64_t DrawTarget(uint64_t draw_bits, uint64_t total) {
  return sampling_internal::Multiply(draw_bits, total).high;
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_SAMPLING_H_
