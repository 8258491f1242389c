#include "tests/kernels/cuda/attention_plan_run.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/device_memory.h"

namespace isobit {
namespace {

using cuda::AttentionTile;
using cuda::DeviceArray;

template <typename T>
DeviceArray<T> OnGpu(size_t count) {
  return cuda::AllocateDeviceArray<T>(count, "a test").value();
}

DeviceArray<int32_t> ToGpu(const std::vector<int32_t>& values) {
  auto array = OnGpu<int32_t>(values.size() + 1);
  EXPECT_EQ(cudaMemcpy(array.get(), values.data(), values.size() * sizeof(int32_t),
                       cudaMemcpyHostToDevice),
            cudaSuccess);
  return array;
}

}  // namespace

PrefillPlan PlanPrefillOnGpu(const AttentionShape& shape, const std::vector<SequenceRows>& rows,
                             int ctas) {
  constexpr size_t kMostTiles = 4096, kMostUnits = 65536;
  std::vector<int32_t> position, first_row = {0};
  for (const SequenceRows& s : rows) {
    for (int i = 0; i < s.rows; ++i) position.push_back(s.first + i);
    first_row.push_back(static_cast<int32_t>(position.size()));
  }
  const auto positions = ToGpu(position), first_rows = ToGpu(first_row);
  cuda::PlanRequest request;
  request.batch.rows = static_cast<int64_t>(position.size());
  request.batch.sequences = static_cast<int64_t>(rows.size());
  request.batch.position = positions.get();
  request.batch.first_row = first_rows.get();
  request.group = cuda::Divisor(shape.heads / shape.kv_heads);
  request.window = shape.window;
  request.split_tile_rows = cuda::kSplitTileRows;
  request.prefill_packed_rows = 64;
  request.prefill_tile_rows = cuda::PrefillTileRows(shape.head_dim);
  request.prefill_ctas = ctas;
  request.kv_heads = shape.kv_heads;
  const auto counts = OnGpu<cuda::PlanCounts>(1);
  const auto units = OnGpu<cuda::SplitUnit>(kMostUnits);
  const auto tiles = OnGpu<AttentionTile>(kMostTiles);
  EXPECT_EQ(cuda::LaunchAttentionPlan(request, counts.get(), units.get(), tiles.get(), nullptr),
            cudaSuccess);
  PrefillPlan plan;
  EXPECT_EQ(cudaMemcpy(&plan.counts, counts.get(), sizeof(plan.counts), cudaMemcpyDeviceToHost),
            cudaSuccess);
  plan.tiles.resize(static_cast<size_t>(plan.counts.prefill_tiles));
  EXPECT_EQ(cudaMemcpy(plan.tiles.data(), tiles.get(), plan.tiles.size() * sizeof(AttentionTile),
                       cudaMemcpyDeviceToHost),
            cudaSuccess);
  return plan;
}

int Multiprocessors() {
  int count = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  return count;
}

}  // namespace isobit
