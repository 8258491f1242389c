#ifndef ISOBIT_TESTS_KERNELS_CPU_LOGITS_H_
#define ISOBIT_TESTS_KERNELS_CPU_LOGITS_H_

// Rows of logits for tests of scoring and sampling.

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/numerics/bf16.h"
#include "tests/kernels/cpu/inputs.h"

namespace isobit {

enum class LogitKind {
  kModel,      // as models give them
  kPeaked,     // one token far above the others
  kAllEqual,   // nothing but ties
  kTies,       // few different values
  kForbidden,  // half of them -infinity
  kWide,       // any finite magnitude, zeros of both signs
  kNoMax,      // no distribution in every second row: NaN, +infinity or nothing finite
};

inline constexpr LogitKind kLogitKinds[] = {
    LogitKind::kModel,     LogitKind::kPeaked, LogitKind::kAllEqual, LogitKind::kTies,
    LogitKind::kForbidden, LogitKind::kWide,   LogitKind::kNoMax};

inline std::vector<float> RandomLogits(Random& random, int64_t rows, int64_t vocab,
                                       LogitKind kind) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> logits(rows * vocab);
  for (int64_t r = 0; r < rows; ++r) {
    float* z = logits.data() + r * vocab;
    const int64_t special = random.Below(vocab);
    for (int64_t i = 0; i < vocab; ++i) {
      z[i] = random.Normal(1.0f, 3.0f);
      if (kind == LogitKind::kAllEqual) z[i] = -7.25f;
      if (kind == LogitKind::kTies) z[i] = static_cast<float>(random.Below(4));
      if (kind == LogitKind::kForbidden && i != special && random.Below(2) == 0) z[i] = -kInfinity;
      if (kind == LogitKind::kWide) {
        z[i] = ToFloat(RandomBf16(random, Values::kWide));
        if (random.Below(4) == 0) z[i] = random.Below(2) == 0 ? -0.0f : 0.0f;
      }
      if (kind == LogitKind::kNoMax && r % 6 == 5) z[i] = -kInfinity;
    }
    if (kind == LogitKind::kPeaked) z[special] = 60.0f;
    if (kind == LogitKind::kNoMax && r % 6 == 1)
      z[special] = std::numeric_limits<float>::quiet_NaN();
    if (kind == LogitKind::kNoMax && r % 6 == 3) z[special] = kInfinity;
  }
  return logits;
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CPU_LOGITS_H_
