#include "tests/bench/bench_machine.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/cpu/instructions.h"

namespace isobit {

CpuContext& BenchContext() {
  static CpuContext* const context = [] {
    const char* threads = std::getenv("ISOBIT_BENCH_THREADS");
    const char* name = std::getenv("ISOBIT_BENCH_INSTRUCTIONS");
    const auto set = FindInstructionSet(name == nullptr ? "auto" : name);
    if (!set.ok()) {
      std::fprintf(stderr, "%s\n", set.status().ToString().c_str());
      std::exit(2);
    }
    return new CpuContext(threads == nullptr ? 2 : std::atoi(threads), set->targets);
  }();
  return *context;
}

std::vector<Bf16> NormalBf16s(int64_t n, float deviation) {
  std::mt19937_64 bits(7);
  std::normal_distribution<float> normal(0.0f, deviation);
  // A prime number of different ones is enough, and quick.
  std::vector<Bf16> some(10007);
  for (Bf16& x : some) x = RoundToBf16(normal(bits));
  std::vector<Bf16> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) x[i] = some[i % some.size()];
  return x;
}

}  // namespace isobit
