#include "kernels/cuda/attention_timing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/kv_cache.h"
#include "kernels/cuda/qualify_inputs.h"
#include "kernels/cuda/timed_graph.h"

namespace isobit::cuda {
namespace {

// Of all layers of a graph: many times L2.
constexpr int64_t kKvBytes = 400 << 20;
constexpr int64_t kMostLayers = 32;

// A prime, larger than any number of pages: its multiples, modulo that number, are all of them.
constexpr int64_t kStride = 2654435761;

// A batch in device memory.
class DeviceBatch {
 public:
  // Pages of a sequence are strewn over the cache.
  absl::Status Fill(const AttentionBatch& shape, int64_t pages_each) {
    std::vector<int32_t> position, sequence, first_row = {0};
    for (int s = 0; s < shape.sequences; ++s) {
      for (int i = 0; i < shape.rows; ++i) {
        position.push_back(shape.cached + i);
        sequence.push_back(s);
      }
      first_row.push_back(static_cast<int32_t>(position.size()));
    }
    const int64_t pages = shape.sequences * pages_each;
    std::vector<int32_t> table;
    for (int64_t i = 0; i < pages; ++i) table.push_back(static_cast<int32_t>(i * kStride % pages));
    batch_ = {.rows = static_cast<int64_t>(position.size()),
              .sequences = shape.sequences,
              .page_table_stride = pages_each,
              .max_context = shape.cached + shape.rows};
    for (const auto& [values, to] :
         {std::pair(&position, &batch_.position), std::pair(&sequence, &batch_.sequence),
          std::pair(&first_row, &batch_.first_row), std::pair(&table, &batch_.page_table)}) {
      auto array = AllocateDeviceArray<int32_t>(values->size(), "a batch");
      if (!array.ok()) return array.status();
      const cudaError_t error = cudaMemcpy(
          array->get(), values->data(), values->size() * sizeof(int32_t), cudaMemcpyHostToDevice);
      if (error != cudaSuccess) return FromCuda(error, "uploading a batch");
      *to = array->get();
      arrays_.push_back(*std::move(array));
    }
    return absl::OkStatus();
  }
  const RowBatch& get() const { return batch_; }

 private:
  RowBatch batch_;
  std::vector<DeviceArray<int32_t>> arrays_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionTimer>> AttentionTimer::Create(int multiprocessors) {
  std::unique_ptr<AttentionTimer> timer(new AttentionTimer());
  if (absl::Status s = timer->stream_.Open(); !s.ok()) return s;
  auto runner = AttentionRunner::Create(multiprocessors);
  if (!runner.ok()) return runner.status();
  timer->runner_ = *std::move(runner);
  return timer;
}

absl::StatusOr<double> AttentionTimer::Time(const AttentionBatch& shape, int rounds) {
  const int64_t context = shape.cached + shape.rows;
  const int64_t pages_each = (context + shape.page_tokens - 1) / shape.page_tokens;
  const int layers =
      static_cast<int>(std::clamp<int64_t>(kKvBytes / shape.KvBytes(), 2, kMostLayers));
  auto cache = CudaKvCache::Create(
      {layers, shape.kv_heads, shape.head_dim, shape.page_tokens, pages_each * shape.sequences});
  if (!cache.ok()) return cache.status();
  DeviceBatch batch;
  if (absl::Status s = batch.Fill(shape, pages_each); !s.ok()) return s;
  runner_->ForgetPlans();

  const int64_t elements = batch.get().rows * shape.heads * shape.head_dim;
  auto q = AllocateDeviceArray<Bf16>(static_cast<size_t>(elements), "queries");
  if (!q.ok()) return q.status();
  auto out = AllocateDeviceArray<Bf16>(static_cast<size_t>(elements), "outputs");
  if (!out.ok()) return out.status();
  cudaError_t error = LaunchFill(InputKind::kNormal, 1, 1.0f,
                                 layers * (*cache)->layout().LayerBytes() / int64_t{sizeof(Bf16)},
                                 reinterpret_cast<Bf16*>((*cache)->Layer(0)), stream_.get());
  if (error == cudaSuccess) {
    error = LaunchFill(InputKind::kNormal, 2, 1.0f, elements, q->get(), stream_.get());
  }
  if (error != cudaSuccess) return FromCuda(error, "filling keys and queries");

  const auto run = [&](int layer) {
    return runner_->Run({.batch = &batch.get(),
                         .heads = shape.heads,
                         .kv_heads = shape.kv_heads,
                         .head_dim = shape.head_dim,
                         .softmax_scale = 1 / std::sqrt(static_cast<double>(shape.head_dim)),
                         .soft_cap = shape.soft_cap,
                         .q = q->get(),
                         .cache = cache->get(),
                         .layer = layer,
                         .out = out->get()},
                        **cache, stream_.get());
  };
  if (absl::Status s = run(0); !s.ok()) return s;  // plans and allocates
  error = cudaStreamSynchronize(stream_.get());
  if (error != cudaSuccess) return FromCuda(error, "running attention");

  absl::Status run_status;
  std::vector<std::unique_ptr<TimedGraph>> graphs;
  auto graph = TimedGraph::Capture(
      "attention", layers,
      [&](int layer, cudaStream_t) {
        run_status = run(layer);
        return run_status.ok() ? cudaSuccess : cudaErrorUnknown;
      },
      stream_.get());
  if (!run_status.ok()) return run_status;
  if (!graph.ok()) return graph.status();
  graphs.push_back(*std::move(graph));
  if (absl::Status s = TimeInTurns(graphs, rounds, kOneRun, stream_.get()); !s.ok()) return s;
  return 1e-6 * graphs.front()->MedianMicroseconds();
}

}  // namespace isobit::cuda
