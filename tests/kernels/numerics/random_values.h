#ifndef ISOBIT_TESTS_KERNELS_NUMERICS_RANDOM_VALUES_H_
#define ISOBIT_TESTS_KERNELS_NUMERICS_RANDOM_VALUES_H_

// Inputs for tests, the same on every machine: only the engine of <random> is used, since its
// distributions differ between libraries.

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/numerics/bf16.h"

namespace isobit {

class RandomValues {
 public:
  explicit RandomValues(uint64_t seed) : engine_(seed) {}

  uint64_t Bits() { return engine_(); }
  // In [0, n).
  int64_t Below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  // In [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  // Roughly normal with deviation 1: twelve uniforms.
  double Normal() {
    double sum = -6.0;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }
  Bf16 NormalBf16(double scale = 1.0) { return RoundToBf16(static_cast<float>(Normal() * scale)); }
  // Normal, times a power of two between 2^-spread and 2^spread.
  Bf16 SpreadBf16(int spread) {
    return NormalBf16(std::ldexp(1.0, static_cast<int>(Below(2 * spread + 1)) - spread));
  }
  // Any finite bf16.
  Bf16 FiniteBf16() {
    for (;;) {
      const Bf16 x = {static_cast<uint16_t>(Bits())};
      if ((x.bits & 0x7f80) != 0x7f80) return x;
    }
  }

  std::vector<Bf16> NormalRow(int64_t n, double scale = 1.0) {
    std::vector<Bf16> row(static_cast<size_t>(n));
    for (Bf16& x : row) x = NormalBf16(scale);
    return row;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_NUMERICS_RANDOM_VALUES_H_
