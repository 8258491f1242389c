#include <cuda_runtime.h>

#include <tuple>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/attention_prefill_work.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/sm90/barrier.h"

namespace isobit::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
// Prefill tiles are sorted by their keys, in steps of 128; longer ones share the first bucket.
constexpr int kSortBuckets = 1024;
constexpr int kKeysPerBucket = 128;

// How the work of some sequences adds up.
struct Totals {
  int tiles = 0;  // of the split kernel
  int units = 0;

  __device__ Totals operator+(const Totals& b) const { return {tiles + b.tiles, units + b.units}; }
  __device__ Totals operator-(const Totals& b) const { return {tiles - b.tiles, units - b.units}; }
};

__device__ Totals ShuffleUp(const Totals& value, int distance) {
  return {__shfl_up_sync(0xffffffffu, value.tiles, distance),
          __shfl_up_sync(0xffffffffu, value.units, distance)};
}
__device__ int64_t ShuffleUp(int64_t value, int distance) {
  return __shfl_up_sync(0xffffffffu, static_cast<long long>(value), distance);
}

template <typename T>
__device__ T InclusiveWarpScan(T value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const T before = ShuffleUp(value, distance);
    if (lane >= distance) value = value + before;
  }
  return value;
}

// The sum over all threads in front of this one; adds that over all threads to *sum. of_warp: one a
// warp, in shared memory.
template <typename T>
__device__ T ExclusiveScan(const T& own, T* of_warp, T* sum) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const T scanned = InclusiveWarpScan(own);
  if (lane == 31) of_warp[warp] = scanned;
  __syncthreads();
  T before = scanned - own;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before = before + of_warp[w];
    *sum = *sum + of_warp[w];
  }
  __syncthreads();
  return before;
}

__device__ int DivideUp(int a, int b) { return (a + b - 1) / b; }

struct SequenceRows {
  int sequence, first_row, position, packed_rows;

  __device__ SequenceRows(const PlanRequest& request, int index) : sequence(index) {
    first_row = request.batch.first_row[index];
    const int rows = request.batch.first_row[index + 1] - first_row;
    position = rows > 0 ? request.batch.position[first_row] : 0;
    packed_rows = rows * request.group.value();
  }
  __device__ bool IsPrefill(const PlanRequest& request) const {
    return request.prefill_packed_rows > 0 && packed_rows >= request.prefill_packed_rows;
  }
  // The tile of this height that begins at packed row `packed`.
  __device__ AttentionTile Tile(int packed, int height) const {
    return {sequence, first_row, position, packed, min(height, packed_rows - packed)};
  }
};

using Counter = unsigned long long;

struct PlanShared {
  int bucket[kSortBuckets];  // prefill tiles in it, then where its next one goes
  int warp_total[kWarps];
  Counter prefill_keys;
  Counter prefill_cost, prefill_bound;  // CostOf all tiles; a time that whole tiles take
  Totals of_warp[kWarps];
  int64_t keys_of_warp[kWarps];
};

// ---- Prefill tiles, longest first

__device__ int BucketOf(const PlanRequest& request, const AttentionTile& tile) {
  const KeyRange keys = tile.KeysOfAny(request.group, request.window);
  const int length = (keys.last - keys.first) / kKeysPerBucket;
  return kSortBuckets - 1 - min(length, kSortBuckets - 1);
}

// visit(tile) for all prefill tiles; a warp a sequence.
template <typename Visit>
__device__ void ForPrefillTiles(const PlanRequest& request, const Visit& visit) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int s = warp; s < request.batch.sequences; s += kWarps) {
    const SequenceRows rows(request, s);
    if (!rows.IsPrefill(request)) continue;
    const int tiles = DivideUp(rows.packed_rows, request.prefill_tile_rows);
    for (int t = lane; t < tiles; t += 32) {
      visit(rows.Tile(t * request.prefill_tile_rows, request.prefill_tile_rows));
    }
  }
}

// Turns the buckets' counts into their beginnings; returns the sum. One thread a bucket.
__device__ int ScanBuckets(PlanShared& shared) {
  static_assert(kSortBuckets == kThreads);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int count = shared.bucket[thread];
  int sum = count;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += before;
  }
  if (lane == 31) shared.warp_total[warp] = sum;
  __syncthreads();
  int before = 0, total = 0;
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) before += shared.warp_total[w];
    total += shared.warp_total[w];
  }
  shared.bucket[thread] = before + sum - count;
  __syncthreads();
  return total;
}

// The keys that the rows of prefilled sequences see, for each key head. Each thread its sequences.
__device__ int64_t PrefillKeys(const PlanRequest& request, PlanShared& shared) {
  if (request.prefill_packed_rows == 0) return 0;
  if (threadIdx.x == 0) shared.prefill_keys = 0;
  __syncthreads();
  for (auto s = static_cast<int>(threadIdx.x); s < request.batch.sequences; s += kThreads) {
    const SequenceRows rows(request, s);
    if (!rows.IsPrefill(request)) continue;
    const KeyRange keys = rows.Tile(0, rows.packed_rows).KeysOfAny(request.group, request.window);
    atomicAdd(&shared.prefill_keys, Counter{static_cast<unsigned>(keys.last - keys.first + 1)});
  }
  __syncthreads();
  return static_cast<int64_t>(shared.prefill_keys);
}

// What a tile takes a CTA, in tiles of keys.
__device__ unsigned CostOf(const PlanRequest& request, const AttentionTile& tile) {
  constexpr int kRows = 4;  // to go to other rows
  const KeyRange keys = tile.KeysOfAny(request.group, request.window);
  return static_cast<unsigned>(keys.last / kPrefillTileKeys - keys.first / kPrefillTileKeys + 1 +
                               kRows);
}

// Whether cutting tiles gains more than it costs. With whole ones, longest first, some CTA has k +
// 1 of the first k * CTAs + 1, none of them shorter than the last: the launch takes at least that
// long. Cut ones share all work equally.
__device__ bool IsWorthCutting(const PlanRequest& request, const AttentionTile* tiles, int total,
                               PlanShared& shared) {
  constexpr int kCutCost = 16;  // a CTA
  const auto k = static_cast<int64_t>(threadIdx.x) + 1;
  const int64_t unit = k * request.prefill_ctas;
  if (unit < int64_t{total} * request.kv_heads) {
    const AttentionTile& tile = tiles[unit / request.kv_heads];
    atomicMax(&shared.prefill_bound, static_cast<Counter>(k + 1) * CostOf(request, tile));
  }
  __syncthreads();
  const auto ctas = static_cast<unsigned>(request.prefill_ctas);
  const auto kv_heads = static_cast<unsigned>(request.kv_heads);
  return shared.prefill_bound * ctas > shared.prefill_cost * kv_heads + kCutCost * ctas;
}

struct PrefillCounts {
  int tiles = 0, cut_tiles = 0, long_tiles = 0;
};

__device__ PrefillCounts PlanPrefill(const PlanRequest& request, AttentionTile* tiles,
                                     PlanShared& shared) {
  if (request.prefill_packed_rows == 0) return {};
  shared.bucket[threadIdx.x] = 0;
  if (threadIdx.x == 0) shared.prefill_cost = shared.prefill_bound = 0;
  __syncthreads();
  ForPrefillTiles(request, [&](const AttentionTile& tile) {
    atomicAdd(&shared.bucket[BucketOf(request, tile)], 1);
    atomicAdd(&shared.prefill_cost, Counter{CostOf(request, tile)});
  });
  __syncthreads();
  const int total = ScanBuckets(shared);
  // Those of more than a split.
  const int long_tiles = shared.bucket[kSortBuckets - 1 - kSplitKeys / kKeysPerBucket];
  __syncthreads();
  ForPrefillTiles(request, [&](const AttentionTile& tile) {
    tiles[atomicAdd(&shared.bucket[BucketOf(request, tile)], 1)] = tile;
  });
  __syncthreads();
  const int cut_tiles = PrefillCutTiles(request.prefill_ctas, request.kv_heads);
  if (cut_tiles > long_tiles || !IsWorthCutting(request, tiles, total, shared)) {
    return {total, 0, total};
  }
  return {total, cut_tiles, long_tiles};
}

// ---- Units of the split kernel, in the order of sequences

// A unit of all splits needs no merge, and fewer units begin and end; units of one split are spread
// better. So tiles are whole as long as there is enough to do behind them; and if all but the last
// of their splits are one, and that is short.
constexpr int kShortSplitKeys = kSplitKeys / 4;

// keys_behind: of tiles of later sequences.
__device__ Totals OfTile(const PlanRequest& request, const AttentionTile& tile,
                         int64_t keys_behind) {
  if (request.whole_tiles) return {1, 1};
  const KeyRange keys = tile.KeysOfAny(request.group, request.window);
  const int splits = keys.last / kSplitKeys - keys.first / kSplitKeys + 1;
  if (request.whole_tiles_behind > 0) {
    const int64_t length = keys.last - keys.first + 1;
    if (length * request.whole_tiles_behind <= keys_behind) return {1, 1};
    if (splits == 2 && keys.last % kSplitKeys < kShortSplitKeys) return {1, 1};
  }
  return {1, splits};
}

// visit(tile) for the split kernel's tiles of a sequence.
template <typename Visit>
__device__ void ForSplitTiles(const PlanRequest& request, const SequenceRows& rows,
                              const Visit& visit) {
  if (rows.IsPrefill(request)) return;
  for (int packed = 0; packed < rows.packed_rows; packed += request.split_tile_rows) {
    visit(rows.Tile(packed, request.split_tile_rows));
  }
}

// What a sequence adds. One thread.
__device__ Totals OfSequence(const PlanRequest& request, int sequence, int64_t keys_behind) {
  Totals totals;
  ForSplitTiles(request, SequenceRows(request, sequence), [&](const AttentionTile& tile) {
    totals = totals + OfTile(request, tile, keys_behind);
  });
  return totals;
}
__device__ int64_t KeysOfSequence(const PlanRequest& request, int sequence) {
  int64_t sum = 0;
  ForSplitTiles(request, SequenceRows(request, sequence), [&](const AttentionTile& tile) {
    const KeyRange keys = tile.KeysOfAny(request.group, request.window);
    sum += keys.last - keys.first + 1;
  });
  return sum;
}

// Writes a sequence's units behind those that are there already. One warp.
__device__ void WriteUnits(const PlanRequest& request, int sequence, int64_t keys_behind,
                           Totals before, SplitUnit* units) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  ForSplitTiles(request, SequenceRows(request, sequence), [&](const AttentionTile& tile) {
    const Totals of_tile = OfTile(request, tile, keys_behind);
    const KeyRange keys = tile.KeysOfAny(request.group, request.window);
    const int first_split = keys.first / kSplitKeys;
    const bool is_whole = of_tile.units == 1 && keys.last / kSplitKeys > first_split;
    for (int i = lane; i < of_tile.units; i += 32) {
      units[before.units + i] = {tile, is_whole ? kAllSplits : first_split + i, of_tile.units,
                                 before.tiles};
    }
    before = before + of_tile;
  });
}

// Returns how many there are. Sequences are taken a thread each to count, then a warp each to
// write.
__device__ int PlanSplits(const PlanRequest& request, SplitUnit* units, PlanShared& shared) {
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const auto sequences = static_cast<int>(request.batch.sequences);
  int64_t keys = 0;
  if (request.whole_tiles_behind > 0) {
    int64_t own = 0;
    for (int s = thread; s < sequences; s += kThreads) own += KeysOfSequence(request, s);
    ExclusiveScan(own, shared.keys_of_warp, &keys);
  }
  int64_t keys_seen = 0;
  Totals seen;
  for (int round = 0; round < sequences; round += kThreads) {
    const bool has_sequence = round + thread < sequences;
    int64_t behind = 0;
    if (request.whole_tiles_behind > 0) {
      const int64_t own = has_sequence ? KeysOfSequence(request, round + thread) : 0;
      const int64_t seen_before = keys_seen;
      const int64_t before = ExclusiveScan(own, shared.keys_of_warp, &keys_seen);
      behind = keys - seen_before - before - own;
    }
    const Totals own = has_sequence ? OfSequence(request, round + thread, behind) : Totals{};
    const Totals seen_before = seen;
    const Totals before = seen_before + ExclusiveScan(own, shared.of_warp, &seen);
    // The warp writes the sequences of its lanes.
    for (int i = 0; i < 32 && round + warp * 32 + i < sequences; ++i) {
      const Totals of_lane = {__shfl_sync(0xffffffffu, before.tiles, i),
                              __shfl_sync(0xffffffffu, before.units, i)};
      const int64_t behind_lane = __shfl_sync(0xffffffffu, static_cast<long long>(behind), i);
      WriteUnits(request, round + warp * 32 + i, behind_lane, of_lane, units);
    }
  }
  return seen.units;
}

// One CTA.
__global__ void __launch_bounds__(kThreads)
    AttentionPlanKernel(const __grid_constant__ PlanRequest request, PlanCounts* counts,
                        SplitUnit* units, AttentionTile* prefill_tiles) {
  __shared__ PlanShared shared;
  sm90::WaitForPriorKernels();
  const PrefillCounts prefill = PlanPrefill(request, prefill_tiles, shared);
  const int64_t keys = PrefillKeys(request, shared);
  const int split_units = PlanSplits(request, units, shared);
  if (threadIdx.x == 0) {
    *counts = {split_units, prefill.tiles, prefill.cut_tiles, prefill.long_tiles, keys};
  }
}

}  // namespace

bool operator==(const PlanRequest& a, const PlanRequest& b) {
  const auto key = [](const PlanRequest& r) {
    return std::make_tuple(r.batch.rows, r.batch.sequences, r.batch.position, r.batch.sequence,
                           r.batch.first_row, r.batch.page_table, r.batch.page_table_stride,
                           r.batch.max_context, r.group.value(), r.window, r.split_tile_rows,
                           r.whole_tiles, r.whole_tiles_behind, r.prefill_packed_rows,
                           r.prefill_tile_rows, r.prefill_ctas, r.kv_heads);
  };
  return key(a) == key(b);
}

cudaError_t LaunchAttentionPlan(const PlanRequest& request, PlanCounts* counts, SplitUnit* units,
                                AttentionTile* prefill_tiles, cudaStream_t stream) {
  return Launch(AttentionPlanKernel, {.grid = dim3(1), .threads = kThreads}, stream, request,
                counts, units, prefill_tiles);
}

}  // namespace isobit::cuda
