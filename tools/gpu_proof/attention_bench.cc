// Times attention on the GPU machine, as CUDA graphs of several layers, so that keys and values are
// read from memory and not from L2. Prints the median of a layer.
//
//   attention_bench [--rounds 15] [--only SUBSTRING]
//
// tools/gpu_proof/attention_rival.py times PyTorch's attention on the same shapes; prove.sh lets
// the two take turns.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/kv_cache.h"
#include "kernels/cuda/qualify_inputs.h"

namespace isobit::cuda {
namespace {

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}
void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

struct Shape {
  const char* name;
  int sequences;
  int cached;  // keys before the first row
  int rows;    // of each sequence
  int heads, kv_heads, head_dim, page_tokens;
};

constexpr Shape kShapes[] = {
    {"decode 1x1024", 1, 1023, 1, 32, 8, 128, 16},
    {"decode 1x1080", 1, 1079, 1, 32, 8, 128, 16},
    {"decode 1x4096", 1, 4095, 1, 32, 8, 128, 16},
    {"decode 1x8192", 1, 8191, 1, 32, 8, 128, 16},
    {"decode 1x8192 pages of 128", 1, 8191, 1, 32, 8, 128, 128},
    {"decode 1x32768", 1, 32767, 1, 32, 8, 128, 16},
    {"decode 8x1080", 8, 1079, 1, 32, 8, 128, 16},
    {"decode 8x4096", 8, 4095, 1, 32, 8, 128, 16},
    {"decode 64x4096", 64, 4095, 1, 32, 8, 128, 16},
    {"decode 64x4096 pages of 128", 64, 4095, 1, 32, 8, 128, 128},
    {"decode 64x1024", 64, 1023, 1, 32, 8, 128, 16},
    {"decode 64x1080", 64, 1079, 1, 32, 8, 128, 16},
    {"decode 64x4096 d=64", 64, 4095, 1, 32, 8, 64, 16},
    {"decode 64x4096 d=256", 64, 4095, 1, 16, 4, 256, 16},
    {"prefill 1x4096", 1, 0, 4096, 32, 8, 128, 16},
    {"prefill 1x4096 pages of 128", 1, 0, 4096, 32, 8, 128, 128},
    {"prefill 4x4096", 4, 0, 4096, 32, 8, 128, 16},
    {"prefill 1x16384", 1, 0, 16384, 32, 8, 128, 16},
    {"prefill 1x4096 64/8", 1, 0, 4096, 64, 8, 128, 16},
    {"prefill 1x16384 64/8", 1, 0, 16384, 64, 8, 128, 16},
    {"prefill 2048 on 14336", 1, 14336, 2048, 32, 8, 128, 16},
    {"prefill 1x4096 d=64", 1, 0, 4096, 32, 8, 64, 16},
    {"prefill 1x4096 d=256", 1, 0, 4096, 16, 4, 256, 16},
};

template <typename T>
DeviceArray<T> Upload(const std::vector<T>& values) {
  DeviceArray<T> array = AllocateDeviceArray<T>(values.size(), "the bench").value();
  Check(cudaMemcpy(array.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return array;
}

class Bench {
 public:
  explicit Bench(int rounds) : rounds_(rounds) {
    Check(cudaStreamCreate(&stream_));
    Check(cudaEventCreate(&begin_));
    Check(cudaEventCreate(&end_));
    int multiprocessors = 0;
    Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    runner_ = AttentionRunner::Create(multiprocessors).value();
  }

  void Time(const Shape& shape) {
    const int64_t context = shape.cached + shape.rows;
    const int64_t kv_bytes = 4 * shape.sequences * context * shape.kv_heads * shape.head_dim;
    const int layers = static_cast<int>(std::clamp<int64_t>((400 << 20) / kv_bytes, 2, 32));
    const int64_t pages_each = (context + shape.page_tokens - 1) / shape.page_tokens;
    auto cache = CudaKvCache::Create({layers, shape.kv_heads, shape.head_dim, shape.page_tokens,
                                      pages_each * shape.sequences})
                     .value();
    Check(LaunchFill(InputKind::kNormal, 1, 1.0f,
                     layers * cache->layout().LayerBytes() / int64_t{sizeof(Bf16)},
                     reinterpret_cast<Bf16*>(cache->Layer(0)), stream_));
    SetBatch(shape, pages_each);
    const int64_t elements = batch_.rows * shape.heads * shape.head_dim;
    const auto q = AllocateDeviceArray<Bf16>(static_cast<size_t>(elements), "the bench").value();
    const auto out = AllocateDeviceArray<Bf16>(static_cast<size_t>(elements), "the bench").value();
    Check(LaunchFill(InputKind::kNormal, 2, 1.0f, elements, q.get(), stream_));
    const auto run = [&](int layer) {
      const Attention op = {.batch = &batch_,
                            .heads = shape.heads,
                            .kv_heads = shape.kv_heads,
                            .head_dim = shape.head_dim,
                            .softmax_scale = 1 / std::sqrt(static_cast<double>(shape.head_dim)),
                            .q = q.get(),
                            .cache = cache.get(),
                            .layer = layer,
                            .out = out.get()};
      Check(runner_->Run(op, *cache, stream_));
    };
    run(0);  // plans and allocates
    Check(cudaStreamSynchronize(stream_));
    Report(shape, Measure(layers, run), static_cast<double>(kv_bytes));
  }

 private:
  // Pages of a sequence are strewn over the cache.
  void SetBatch(const Shape& shape, int64_t pages_each) {
    std::vector<int32_t> position, sequence, first_row = {0}, table;
    for (int s = 0; s < shape.sequences; ++s) {
      for (int i = 0; i < shape.rows; ++i) {
        position.push_back(shape.cached + i);
        sequence.push_back(s);
      }
      first_row.push_back(static_cast<int32_t>(position.size()));
    }
    table.resize(static_cast<size_t>(shape.sequences * pages_each));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(7));
    position_ = Upload(position);
    sequence_ = Upload(sequence);
    first_row_ = Upload(first_row);
    table_ = Upload(table);
    batch_ = {static_cast<int64_t>(position.size()),
              shape.sequences,
              position_.get(),
              sequence_.get(),
              first_row_.get(),
              table_.get(),
              pages_each,
              shape.cached + shape.rows};
    runner_->ForgetPlans();
  }

  template <typename RunLayer>
  double Measure(int layers, const RunLayer& run) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int layer = 0; layer < layers; ++layer) run(layer);
    Check(cudaStreamEndCapture(stream_, &graph));
    Check(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<double> times;
    for (int round = 0; round < rounds_ + 2; ++round) {
      float ms = 0;
      Check(cudaEventRecord(begin_, stream_));
      Check(cudaGraphLaunch(exec, stream_));
      Check(cudaEventRecord(end_, stream_));
      Check(cudaEventSynchronize(end_));
      Check(cudaEventElapsedTime(&ms, begin_, end_));
      if (round >= 2) times.push_back(1000.0 * ms / layers);
    }
    Check(cudaGraphExecDestroy(exec));
    Check(cudaGraphDestroy(graph));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void Report(const Shape& shape, double microseconds, double kv_bytes) const {
    // Keys seen by all rows, times two products of head_dim each.
    const double keys =
        static_cast<double>(shape.sequences) * shape.rows * (shape.cached + 0.5 * (shape.rows + 1));
    const double flops = 4.0 * keys * shape.heads * shape.head_dim;
    std::printf("%-32s %10.2f us  %6.2f TB/s  %6.0f TFLOP/s\n", shape.name, microseconds,
                1e-6 * kv_bytes / microseconds, 1e-6 * flops / microseconds);
    std::fflush(stdout);
  }

  const int rounds_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::unique_ptr<AttentionRunner> runner_;
  DeviceArray<int32_t> position_, sequence_, first_row_, table_;
  RowBatch batch_;
};

int Main(int argc, char** argv) {
  int rounds = 15;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
  }
  Bench bench(rounds);
  for (const Shape& shape : kShapes) {
    if (std::string(shape.name).find(only) != std::string::npos) bench.Time(shape);
  }
  return 0;
}

}  // namespace
}  // namespace isobit::cuda

int main(int argc, char** argv) { return isobit::cuda::Main(argc, argv); }
