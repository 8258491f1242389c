#ifndef ISOBIT_TESTS_KERNELS_CUDA_LOGITS_H_
#define ISOBIT_TESTS_KERNELS_CUDA_LOGITS_H_

// Rows of logits for tests of scoring and sampling.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/numerics/random_values.h"

namespace isobit {

enum class LogitKind {
  kNormal,     // deviation 3, as a model's
  kSharp,      // one token has nearly all the weight
  kTies,       // few different values
  kEqual,      // all the same
  kZeros,      // +0 and -0
  kForbidden,  // most are -infinity
  kWide,       // over all of fp32
  kNan,        // one NaN
  kInfinite,   // one +infinity
  kNothing,    // all -infinity
};
inline constexpr LogitKind kAllLogitKinds[] = {
    LogitKind::kNormal,   LogitKind::kSharp,     LogitKind::kTies, LogitKind::kEqual,
    LogitKind::kZeros,    LogitKind::kForbidden, LogitKind::kWide, LogitKind::kNan,
    LogitKind::kInfinite, LogitKind::kNothing};

inline std::string ToString(LogitKind kind) {
  constexpr const char* kNames[] = {"normal",    "sharp", "ties", "equal",    "zeros",
                                    "forbidden", "wide",  "NaN",  "infinite", "nothing"};
  return kNames[static_cast<int>(kind)];
}

inline void AppendLogits(int64_t vocab, LogitKind kind, RandomValues& random,
                         std::vector<float>* logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto begin = logits->size();
  for (int64_t i = 0; i < vocab; ++i) {
    const auto normal = static_cast<float>(random.Normal());
    switch (kind) {
      case LogitKind::kNormal:
      case LogitKind::kNan:
      case LogitKind::kInfinite:
        logits->push_back(3 * normal);
        break;
      case LogitKind::kSharp:
        logits->push_back(i == vocab / 3 ? 30.0f : 2 * normal - 20);
        break;
      case LogitKind::kTies:
        logits->push_back(static_cast<float>(random.Below(5)) - 2);
        break;
      case LogitKind::kEqual:
        logits->push_back(-1.25f);
        break;
      case LogitKind::kZeros:
        logits->push_back(random.Below(2) == 0 ? 0.0f : -0.0f);
        break;
      case LogitKind::kForbidden:
        logits->push_back(random.Below(8) == 0 ? 3 * normal : -kInfinity);
        break;
      case LogitKind::kWide:
        logits->push_back(BitsFloat(static_cast<uint32_t>(random.Bits()) & 0xff7fffffu));  // finite
        break;
      case LogitKind::kNothing:
        logits->push_back(-kInfinity);
        break;
    }
  }
  const size_t somewhere = begin + static_cast<size_t>(random.Below(vocab));
  if (kind == LogitKind::kNan) (*logits)[somewhere] = BitsFloat(0xffc00000u);
  if (kind == LogitKind::kInfinite) (*logits)[somewhere] = kInfinity;
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CUDA_LOGITS_H_
