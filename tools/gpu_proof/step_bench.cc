// Times whole steps of a model of Llama-3.1-8B's shape with random weights, through the engine as
// users run it: decode at batch 1, 8 and 64 with one context, prefill, and a thousand requests at
// once. Prints what the memory floor is beside each: bytes of weights and of keys and values over
// the read rate that was measured on an H200.
//
//   step_bench [--layers 32] [--decode 1,8,64] [--context 1024] [--steps 50] [--eager]
//              [--not-ahead] [--requests 1000]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "invariance/random.h"
#include "invariance/random_checkpoint.h"
#include "kernels/backends.h"
#include "runtime/engine/engine_core.h"

namespace isobit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kReadBytesPerSecond = 4.52e12;

struct BenchOptions {
  int64_t layers = 32;
  std::vector<int64_t> decode = {1, 8, 64};  // sequences
  int64_t context = 1024;
  int64_t steps = 50;
  int64_t requests = 1000;
  bool eager = false;
  bool ahead = true;  // steps are issued before the tokens of the one before are known
};

template <typename T>
T Require(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

double Milliseconds(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class StepBench {
 public:
  StepBench(std::unique_ptr<Model> model, const BenchOptions& options)
      : model_(std::move(model)), options_(options) {}

  void Decode(int64_t sequences, int64_t context) {
    StartEngine(sequences);
    AddRequests(sequences, context, options_.steps + 16);
    std::vector<double> times;
    while (core_->HasWork()) {
      const EngineStats before = core_->Stats();
      const double ms = Step();
      const EngineStats after = core_->Stats();
      // Steps in which all decode and, unless that is not wanted, which are replayed.
      if (after.generated_tokens - before.generated_tokens == sequences &&
          (options_.eager || after.replayed_steps > before.replayed_steps)) {
        times.push_back(ms);
      }
    }
    if (times.empty()) times.push_back(0);
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    const double bytes = WeightBytesRead() + static_cast<double>(sequences) *
                                                 static_cast<double>(context + options_.steps / 2) *
                                                 static_cast<double>(Config().KvBytesPerToken());
    const double floor = 1e3 * bytes / kReadBytesPerSecond;
    std::printf(
        "decode, %3lld sequences, context %lld  %8.3f ms a step (%.3f to %.3f)  %8.1f tok/s  "
        "floor %.3f ms, %.2fx  %lld of %lld steps replayed\n",
        static_cast<long long>(sequences), static_cast<long long>(context), median, times.front(),
        times.back(), 1e3 * static_cast<double>(sequences) / median, floor, median / floor,
        static_cast<long long>(core_->Stats().replayed_steps),
        static_cast<long long>(core_->Stats().steps));
    StopEngine();
  }

  void Prefill(int64_t tokens) {
    StartEngine(1);
    double best = 0;
    for (int i = 0; i < 4; ++i) {
      AddRequests(1, tokens, 1);
      const Clock::time_point begin = Clock::now();
      while (core_->HasWork()) Step();
      const double ms = Milliseconds(begin);
      best = i == 0 ? ms : std::min(best, ms);
    }
    const double flops =
        2.0 * static_cast<double>(tokens) *
        (WeightBytesRead() / sizeof(Bf16) - static_cast<double>(Config().vocab * Config().width));
    std::printf("prefill of %lld  %8.2f ms  %8.0f tok/s  %.0f TFLOP/s of the GEMMs\n",
                static_cast<long long>(tokens), best, 1e3 * static_cast<double>(tokens) / best,
                1e-9 * flops / best);
    StopEngine();
  }

  void Throughput(int64_t input, int64_t output) {
    if (options_.requests == 0) return;
    StartEngine(256);
    AddRequests(options_.requests, input, output);
    const Clock::time_point begin = Clock::now();
    while (core_->HasWork()) Step();
    const double seconds = 1e-3 * Milliseconds(begin);
    const auto count = static_cast<double>(options_.requests);
    std::printf(
        "%lld requests, %lld in, %lld out, up to 256 at once  %.2f s  %.0f tok/s out, %.0f in and "
        "out  %lld steps, %lld replayed\n",
        static_cast<long long>(options_.requests), static_cast<long long>(input),
        static_cast<long long>(output), seconds, count * static_cast<double>(output) / seconds,
        count * static_cast<double>(input + output) / seconds,
        static_cast<long long>(core_->Stats().steps),
        static_cast<long long>(core_->Stats().replayed_steps));
    StopEngine();
  }

 private:
  const ModelConfig& Config() const { return core_->model().config(); }

  // Of the embedding, only rows are read.
  double WeightBytesRead() const {
    return static_cast<double>(core_->model().weight_bytes() -
                               Config().vocab * Config().width * int64_t{sizeof(Bf16)});
  }

  void StartEngine(int64_t sequences) {
    core_ = Require(EngineCore::Create(std::move(model_), {.max_num_seqs = sequences,
                                                           .prefix_cache = false,
                                                           .enforce_eager = options_.eager,
                                                           .async_scheduling = options_.ahead}));
  }
  void StopEngine() {
    std::fflush(stdout);
    model_ = EngineCore::TakeModel(std::move(core_));
  }

  void AddRequests(int64_t count, int64_t input, int64_t output) {
    for (int64_t i = 0; i < count; ++i) {
      SplitMix random(static_cast<uint64_t>(i));
      PreparedRequest request;
      request.handle = ++handle_;
      request.prompt = RandomTokens(random, input, Config().vocab);
      request.sampling.max_tokens = output;
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      request.callbacks.on_done = [](const absl::StatusOr<Completion>& completion) {
        if (completion.ok()) return;
        std::fprintf(stderr, "%s\n", completion.status().ToString().c_str());
        std::exit(1);
      };
      core_->Add(std::move(request));
    }
  }

  double Step() {
    const Clock::time_point begin = Clock::now();
    const absl::Status status = core_->Step();
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      std::exit(1);
    }
    return Milliseconds(begin);
  }

  std::unique_ptr<Model> model_;
  const BenchOptions options_;
  std::unique_ptr<EngineCore> core_;
  RequestHandle handle_ = 0;
};

int Main(int argc, char** argv) {
  BenchOptions options;
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--eager") == 0) options.eager = true;
    if (std::strcmp(argv[i], "--not-ahead") == 0) options.ahead = false;
    if (std::strcmp(argv[i], "--layers") == 0 && has_value) options.layers = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--decode") == 0 && has_value) {
      options.decode.clear();
      for (const auto count : absl::StrSplit(argv[++i], ',')) {
        options.decode.push_back(std::atoi(std::string(count).c_str()));
      }
    }
    if (std::strcmp(argv[i], "--context") == 0 && has_value) options.context = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--steps") == 0 && has_value) options.steps = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--requests") == 0 && has_value) {
      options.requests = std::atoi(argv[++i]);
    }
  }
  ModelConfig config = KnownShapes().at("llama-3.1-8b");
  config.layers = options.layers;
  const RandomCheckpoint checkpoint(config, 1);
  const Clock::time_point begin = Clock::now();
  StepBench bench(Require(Model::Load(checkpoint, "random", Require(CreateCudaBackend({})))),
                  options);
  std::printf("made in %.1f s\n", 1e-3 * Milliseconds(begin));
  for (int64_t sequences : options.decode) bench.Decode(sequences, options.context);
  bench.Prefill(4096);
  bench.Throughput(512, 256);
  return 0;
}

}  // namespace
}  // namespace isobit

int main(int argc, char** argv) { return isobit::Main(argc, argv); }
