// Attention with the heads of SmolLM2-135M (9 of queries, 3 of keys, 64 wide).
//
// GFLOP/s counts two operations for each product of visible keys and values; kv_GB/s the keys and
// values that the rows see, once for each sequence.

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/kv_cache.h"
#include "tests/bench/bench_machine.h"

namespace isobit {
namespace {

constexpr int kHeads = 9, kKvHeads = 3, kHeadDim = 64, kPageTokens = 16;

// `sequences` of `context` tokens each, of which the last `queries` are rows.
void RunAttention(benchmark::State& state, int64_t sequences, int64_t context, int64_t queries) {
  KvCacheShape shape;
  shape.layers = 1;
  shape.kv_heads = kKvHeads;
  shape.head_dim = kHeadDim;
  shape.page_tokens = kPageTokens;
  const int64_t pages_per_sequence = (context + kPageTokens - 1) / kPageTokens;
  shape.pages = sequences * pages_per_sequence;
  const std::unique_ptr<CpuKvCache> cache = *CpuKvCache::Create(shape);
  const std::vector<Bf16> noise = NormalBf16s(kHeadDim * 1009, 1.0f);
  for (int64_t token = 0; token < shape.pages * kPageTokens; ++token) {
    for (int head = 0; head < kKvHeads; ++head) {
      const Bf16* element = noise.data() + (token * kKvHeads + head) % 1009 * kHeadDim;
      const auto page = static_cast<int32_t>(token / kPageTokens);
      cache->WriteKey(0, page, head, static_cast<int>(token % kPageTokens), element);
      cache->WriteValue(0, page, head, static_cast<int>(token % kPageTokens), element);
    }
  }
  std::vector<int32_t> table(static_cast<size_t>(shape.pages));
  std::iota(table.begin(), table.end(), 0);
  std::vector<int32_t> position, sequence, first_row = {0};
  int64_t visible = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t i = context - queries; i < context; ++i) {
      position.push_back(static_cast<int32_t>(i));
      sequence.push_back(static_cast<int32_t>(s));
      visible += i + 1;
    }
    first_row.push_back(static_cast<int32_t>(position.size()));
  }
  RowBatch batch;
  batch.rows = sequences * queries;
  batch.sequences = sequences;
  batch.position = position.data();
  batch.sequence = sequence.data();
  batch.first_row = first_row.data();
  batch.page_table = table.data();
  batch.page_table_stride = pages_per_sequence;
  batch.max_context = context;
  const std::vector<Bf16> q = NormalBf16s(batch.rows * kHeads * kHeadDim, 1.0f);
  std::vector<Bf16> out(q.size());
  Attention op;
  op.batch = &batch;
  op.heads = kHeads;
  op.kv_heads = kKvHeads;
  op.head_dim = kHeadDim;
  op.softmax_scale = 0.125;
  op.q = q.data();
  op.cache = cache.get();
  op.out = out.data();
  AttentionRunner runner(BenchContext());
  for (auto _ : state) runner.Run(op);
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(4e-9 * static_cast<double>(visible * kHeads * kHeadDim),
                                      Counter::kIsIterationInvariantRate);
  state.counters["kv_GB/s"] =
      Counter(4e-9 * static_cast<double>(sequences * context * kKvHeads * kHeadDim),
              Counter::kIsIterationInvariantRate);
}

void BM_AttentionDecode(benchmark::State& state) {
  RunAttention(state, state.range(0), state.range(1), 1);
}
BENCHMARK(BM_AttentionDecode)
    ->ArgsProduct({{1, 32}, {64, 512, 1024, 4096}})
    ->ArgNames({"sequences", "context"})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

void BM_AttentionPrefill(benchmark::State& state) {
  RunAttention(state, 1, state.range(0), state.range(0));
}
BENCHMARK(BM_AttentionPrefill)
    ->Arg(512)
    ->Arg(2048)
    ->ArgName("tokens")
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
}  // namespace isobit
