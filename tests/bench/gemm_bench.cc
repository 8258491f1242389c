// GEMM at the shapes of SmolLM2-135M, beside what memory can deliver.
//
// weight_GB/s counts the weights once a call, whatever is read; GFLOP/s counts two operations a
// product. At one row the first is the limit, from eight rows on the second.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/host.h"
#include "tests/bench/bench_machine.h"

namespace isobit {
namespace {

// Weights used in turn, so that they come from memory as they do in a model.
constexpr int64_t kResidentBytes = int64_t{512} << 20;

std::unique_ptr<PackedWeight> MakeWeight(int64_t n, int64_t k, WeightArena& arena) {
  const std::vector<Bf16> elements = NormalBf16s(n * k, 0.05f);
  const MatrixSource source = {n, k, [&](int64_t begin, int64_t end, Bf16* out) {
                                 std::copy(elements.begin() + begin * k, elements.begin() + end * k,
                                           out);
                               }};
  return *PackedWeight::Load(std::vector<MatrixSource>{source}, WeightLayout::kConcatenated,
                             BenchContext().pool, arena);
}

void BM_Gemm(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const int64_t bytes = n * k * int64_t{sizeof(Bf16)};
  WeightArena arena;
  std::vector<std::unique_ptr<PackedWeight>> weights;
  for (int64_t i = 0; i < std::max<int64_t>(1, kResidentBytes / bytes); ++i) {
    weights.push_back(MakeWeight(n, k, arena));
  }
  const std::vector<Bf16> x = NormalBf16s(m * k, 1.0f);
  std::vector<float> out(static_cast<size_t>(m * n));
  GemmRunner runner(BenchContext());
  Gemm op;
  op.rows = m;
  op.x = x.data();
  op.epilogue = Gemm::Epilogue::kFp32;
  op.out_fp32 = out.data();
  size_t next = 0;
  for (auto _ : state) {
    op.weight = weights[next].get();
    next = (next + 1) % weights.size();
    runner.Run(op);
  }
  using benchmark::Counter;
  state.counters["weight_GB/s"] =
      Counter(static_cast<double>(bytes) * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GFLOP/s"] =
      Counter(2e-9 * static_cast<double>(m * n * k), Counter::kIsIterationInvariantRate);
}

void GemmShapes(benchmark::internal::Benchmark* bench) {
  for (int64_t m : {1, 2, 4, 8, 16, 64, 256}) {
    bench->Args({m, 960, 576});    // query, key, value
    bench->Args({m, 576, 576});    // output of attention
    bench->Args({m, 3072, 576});   // gate and up
    bench->Args({m, 576, 1536});   // down
    bench->Args({m, 49152, 576});  // logits
  }
  bench->ArgNames({"m", "n", "k"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK(BM_Gemm)->Apply(GemmShapes);

// The ceiling: every thread reads its share of a large array once, as fast as it can.
void BM_ReadMemory(benchmark::State& state) {
  constexpr int64_t kLine = 8;  // words
  constexpr int64_t kParts = 64;
  constexpr int64_t kPart = kResidentBytes / 8 / kParts;
  const std::unique_ptr<Buffer> memory = *AllocateHostBuffer(kResidentBytes);
  uint64_t* const data = memory->As<uint64_t>();
  std::fill(data, data + kParts * kPart, 1);
  std::atomic<uint64_t> total{0};
  for (auto _ : state) {
    BenchContext().pool.ParallelFor(kParts, [&](int64_t p, int) {
      uint64_t sum[kLine] = {};
      for (const uint64_t* line = data + p * kPart; line < data + (p + 1) * kPart; line += kLine) {
        __builtin_prefetch(line + 8 * kLine);
        for (int i = 0; i < kLine; ++i) sum[i] ^= line[i];
      }
      for (const uint64_t s : sum) total.fetch_xor(s, std::memory_order_relaxed);
    });
  }
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(kResidentBytes) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(BM_ReadMemory)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace isobit
