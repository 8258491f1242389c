#ifndef ISOBIT_TESTS_BENCH_BENCH_MACHINE_H_
#define ISOBIT_TESTS_BENCH_BENCH_MACHINE_H_

// What the kernel benchmarks run on and with. Settings come from the environment, so that Google
// Benchmark's own flags stay as they are:
//   ISOBIT_BENCH_THREADS       threads of the pool, default 2
//   ISOBIT_BENCH_INSTRUCTIONS  as CpuOptions::instructions, default auto

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/numerics/bf16.h"

namespace isobit {

// One pool for all benchmarks of the process.
CpuContext& BenchContext();

// Normal numbers as bf16, the same in every run.
std::vector<Bf16> NormalBf16s(int64_t n, float deviation);

}  // namespace isobit

#endif  // ISOBIT_TESTS_BENCH_BENCH_MACHINE_H_
