#ifndef ISOBIT_TESTS_KERNELS_CPU_INPUTS_H_
#define ISOBIT_TESTS_KERNELS_CPU_INPUTS_H_

// Inputs and comparisons for tests that hold the CPU backend against the reference bit for bit.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/instructions.h"
#include "kernels/numerics/bf16.h"
#include "kernels/ops.h"

namespace isobit {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [0, n).
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  // In [low, high).
  float Uniform(float low, float high) {
    return low + (high - low) * (static_cast<float>(Next() >> 40) * 0x1p-24f);
  }
  // Nearly normal: the sum of twelve uniform numbers.
  float Normal(float mean, float deviation) {
    float sum = -6.0f;
    for (int i = 0; i < 12; ++i) sum += Uniform(0.0f, 1.0f);
    return mean + deviation * sum;
  }

 private:
  uint64_t state_;
};

enum class Values {
  kNormal,       // as activations are
  kWide,         // any finite number, subnormals and both zeros included
  kAdversarial,  // any bits at all: infinities and NaNs too
};

inline Bf16 RandomBf16(Random& random, Values values) {
  if (values == Values::kNormal) return RoundToBf16(random.Normal(0.0f, 2.0f));
  const Bf16 x{static_cast<uint16_t>(random.Next())};
  const bool finite = (x.bits & 0x7f80) != 0x7f80;
  if (values == Values::kWide && !finite) return Bf16{static_cast<uint16_t>(x.bits & 0x83ff)};
  return x;
}

inline std::vector<Bf16> RandomBf16s(Random& random, int64_t n, Values values) {
  std::vector<Bf16> x(n);
  for (Bf16& value : x) value = RandomBf16(random, values);
  return x;
}

// Every number of threads and every instruction set that a result must not depend on.
struct CpuVariant {
  int threads;
  InstructionSet instructions;
  std::string Name() const { return absl::StrCat(instructions.name, "_", threads, "threads"); }
};

inline std::vector<CpuVariant> CpuVariants(const std::vector<int>& thread_counts = {1, 2, 3, 8}) {
  std::vector<CpuVariant> variants;
  for (const InstructionSet& set : AvailableInstructionSets()) {
    for (int threads : thread_counts) variants.push_back({threads, set});
  }
  return variants;
}

// A fixture whose tests run once for every variant.
class CpuVariantTest : public testing::TestWithParam<CpuVariant> {
 protected:
  CpuVariantTest() : context_(GetParam().threads, GetParam().instructions.targets) {}
  CpuContext context_;
};

inline std::string VariantName(const testing::TestParamInfo<CpuVariant>& info) {
  return info.param.Name();
}

// Equal bits of [rows][width], or a report of the first difference and their number.
template <typename T>
testing::AssertionResult SameBits(const std::vector<T>& got, const std::vector<T>& want,
                                  int64_t width = 1) {
  if (got.size() != want.size()) {
    return testing::AssertionFailure() << got.size() << " elements, want " << want.size();
  }
  int64_t first = -1, count = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &want[i], sizeof(T)) == 0) continue;
    if (first < 0) first = static_cast<int64_t>(i);
    ++count;
  }
  if (count == 0) return testing::AssertionSuccess();
  const auto hex = [](const T& value) {
    std::string text;
    for (size_t i = 0; i < sizeof(T); ++i) {
      text += absl::StrFormat("%02x",
                              reinterpret_cast<const unsigned char*>(&value)[sizeof(T) - 1 - i]);
    }
    return text;
  };
  return testing::AssertionFailure() << count << " of " << got.size() << " differ, first at row "
                                     << first / width << ", column " << first % width << ": "
                                     << hex(got[first]) << ", want " << hex(want[first]);
}

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CPU_INPUTS_H_
