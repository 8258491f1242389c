// Times the GEMM kernels beside cuBLASLt, in one run: every candidate of a shape is a CUDA graph of
// several calls, each on other weights so that L2 holds none of them, and the graphs take turns
// that are long enough for the clock to settle. Prints medians of a call.
//
//   gemm_bench [--kernels | --match TEXT] [--layer] [--rows 1,16,64] [--shapes qkv,o] [--rounds 3]
//              [--turn MILLISECONDS] [--prefetch BYTES] [--max-stages N] [--band TOKENS]
//
// --kernels: not only the planned kernel of ours but all that come close, fastest first. --match
// TEXT: those whose plan reads like that.
// --layer: the four GEMMs of a layer one after the other, eight layers in a graph. "fused" adds
// what the engine asks of them: residuals, and SiLU gate in gate_up.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cold_weights.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_timing.h"
#include "kernels/cuda/qualify_cublaslt.h"
#include "kernels/cuda/qualify_inputs.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/timed_graph.h"

namespace isobit::cuda {
namespace {

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

struct DeviceMemory {
  explicit DeviceMemory(int64_t size) : bytes(size) {
    Check(cudaMalloc(&data, static_cast<size_t>(bytes)));
  }
  ~DeviceMemory() { cudaFree(data); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  template <typename T>
  T* As() const {
    return static_cast<T*>(data);
  }
  void* data = nullptr;
  int64_t bytes;
};

struct Shape {
  const char* name;
  int64_t n, k;
  Gemm::Epilogue epilogue;
};

// Llama-3.1-8B.
using enum Gemm::Epilogue;
constexpr Shape kShapes[] = {{"qkv", 6144, 4096, kBf16},
                             {"o", 4096, 4096, kBf16},
                             {"gate_up", 28672, 4096, kBf16},
                             {"down", 4096, 14336, kBf16},
                             {"lm_head", 128256, 4096, kFp32}};
constexpr int kLayerShapes = 4;
// Times the fastest.
constexpr double kClose = 1.12;

template <typename T>
T Require(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

using Candidates = std::vector<std::unique_ptr<TimedGraph>>;

std::unique_ptr<TimedGraph> Capture(const std::string& name, int calls,
                                    const std::function<void(int, cudaStream_t)>& launch,
                                    cudaStream_t stream) {
  const auto checked = [&launch](int i, cudaStream_t to) {
    launch(i, to);  // checks for itself
    return cudaSuccess;
  };
  auto graph = TimedGraph::Capture(name, calls, checked, stream);
  Check(graph.status());
  return *std::move(graph);
}

struct Options {
  bool all_kernels = false;
  std::string match;  // of plans, with all kernels
  bool layer = false;
  int rounds = 3;
  double turn_milliseconds = kSettledTurnMs;
  int prefetch_bytes = GemmLaunch{}.prefetch_bytes;
  int max_stages = 1000;
  int band = 0;
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 20, 32, 40, 64, 100, 128, 192, 256, 512, 1024, 4096};
  std::vector<std::string> shapes;
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options), workspace_(kRivalWorkspaceBytes) {
    Check(stream_.Open());
    Check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0));
  }

  void TimeShape(const Shape& shape) {
    const PackedLayout layout = {shape.n, shape.k};
    const auto weights = Require(ColdWeights::Create(layout, ColdWeights::CopiesFor(layout)));
    std::unique_ptr<ColdWeights> gated;
    if (std::strcmp(shape.name, "gate_up") == 0) {
      gated = Require(ColdWeights::Create({shape.n, shape.k, true}, weights->copies()));
    }
    for (int64_t rows : options_.rows) TimeRows(shape, *weights, gated.get(), rows);
  }

  // Four GEMMs a layer, eight layers, one after the other.
  void TimeLayers() {
    constexpr int kLayers = 8;
    std::vector<std::unique_ptr<ColdWeights>> weights;
    for (int i = 0; i < kLayerShapes; ++i) {
      weights.push_back(Require(ColdWeights::Create({kShapes[i].n, kShapes[i].k}, kLayers)));
    }
    const auto gated = Require(ColdWeights::Create({kShapes[2].n, kShapes[2].k, true}, kLayers));
    for (int64_t rows : options_.rows) TimeLayersRows(weights, *gated, rows);
  }

 private:
  Gemm Op(int64_t rows, Gemm::Epilogue epilogue, const DeviceMemory& x, const DeviceMemory& y) {
    Gemm op;
    op.rows = rows;
    op.x = x.As<Bf16>();
    op.epilogue = epilogue;
    op.out_bf16 = y.As<Bf16>();
    op.out_fp32 = y.As<float>();
    return op;
  }

  void Launch(const Gemm& op, const PackedMatrix& weight, GemmPlan plan, bool early,
              cudaStream_t stream) {
    plan.stages = std::min(plan.stages, options_.max_stages);
    if (options_.band > 0)
      plan.band = std::max(1, options_.band / (plan.tokens * plan.CtasPerUnit()));
    GemmLaunch launch;
    launch.early_start = early;
    launch.prefetch_bytes = options_.prefetch_bytes;
    Check(LaunchGemm(op, weight, plan, launch, stream));
  }

  void AddOurs(const std::string& name, const Shape& shape, const ColdWeights& weights,
               Gemm::Epilogue epilogue, const GemmPlan& plan, bool early, int64_t rows,
               const DeviceMemory& x, const DeviceMemory& y, Candidates* candidates) {
    candidates->push_back(Capture(
        name, TimedCalls(shape.n, shape.k, rows),
        [&, plan, early, epilogue](int i, cudaStream_t stream) {
          Launch(Op(rows, epilogue, x, y), weights.Packed(i), plan, early, stream);
        },
        stream_.get()));
  }

  // Those of our kernels that come close to the fastest in turns of one run each.
  void AddAllKernels(const std::string& prefix, const Shape& shape, const ColdWeights& weights,
                     Gemm::Epilogue epilogue, int64_t rows, const DeviceMemory& x,
                     const DeviceMemory& y, Candidates* candidates) {
    Candidates ours;
    for (const GemmKernelId& kernel : GemmKernels()) {
      if (rows > 512 && kernel.warpgroups == 1) continue;
      for (const GemmPlan& p : PlansWithKernel(kernel, weights.layout(), rows, multiprocessors_)) {
        if (ToString(p).find(options_.match) == std::string::npos) continue;
        AddOurs(prefix + ToString(p), shape, weights, epilogue, p, true, rows, x, y, &ours);
      }
    }
    Check(TimeInTurns(ours, options_.rounds, kOneRun, stream_.get()));
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& c : ours) fastest = std::min(fastest, c->MedianMicroseconds());
    for (auto& c : ours) {
      if (c->MedianMicroseconds() <= kClose * fastest) candidates->push_back(std::move(c));
    }
  }

  void TimeRows(const Shape& shape, const ColdWeights& weights, const ColdWeights* gated,
                int64_t rows) {
    if (shape.epilogue == kFp32 && rows > 128) return;
    const DeviceMemory x(2 * rows * shape.k), y(4 * rows * shape.n);
    Check(LaunchFill(InputKind::kNormal, 99, 1.0f, rows * shape.k, x.As<Bf16>(), nullptr));
    Check(cudaDeviceSynchronize());
    Candidates all =
        Require(CaptureCublasLt(weights, rows, rows > 128 || options_.all_kernels ? 8 : 1,
                                TimedCalls(shape.n, shape.k, rows), x.As<Bf16>(), y.As<Bf16>(),
                                workspace_.data, stream_.get()));
    Check(KeepFastest(all, stream_.get()));
    const size_t rivals = all.size();
    const GemmPlan plan = PlanGemm(weights.layout(), rows, multiprocessors_);
    AddOurs("plan", shape, weights, shape.epilogue, plan, true, rows, x, y, &all);
    AddOurs("plan, late", shape, weights, shape.epilogue, plan, false, rows, x, y, &all);
    if (gated != nullptr) {
      const GemmPlan gated_plan = PlanGemm(gated->layout(), rows, multiprocessors_);
      AddOurs("silu gate", shape, *gated, kSiluGate, gated_plan, true, rows, x, y, &all);
    }
    if (options_.all_kernels) {
      AddAllKernels("", shape, weights, shape.epilogue, rows, x, y, &all);
      if (gated != nullptr) AddAllKernels("silu: ", shape, *gated, kSiluGate, rows, x, y, &all);
    }
    Check(TimeInTurns(all, options_.rounds, options_.turn_milliseconds, stream_.get()));
    Report(shape, rows, plan, rivals, all);
  }

  void Report(const Shape& shape, int64_t rows, const GemmPlan& plan, size_t rivals,
              const Candidates& all) {
    const auto time = [&](const std::string& name) {
      for (const auto& c : all) {
        if (c->name() == name) return c->MedianMicroseconds();
      }
      return 0.0;
    };
    double best_rival = time("cublaslt 0");
    for (size_t i = 0; i < rivals; ++i) {
      best_rival = std::min(best_rival, all[i]->MedianMicroseconds());
    }
    const double ours = time("plan");
    std::printf(
        "%-8s M=%-5lld cublaslt %8.2f (best %8.2f)  ours %8.2f  %5.3fx (best %5.3fx)"
        "  late %8.2f  silu %8.2f  %5.2f TB/s %4.0f TFLOP/s  %s\n",
        shape.name, static_cast<long long>(rows), time("cublaslt 0"), best_rival, ours,
        time("cublaslt 0") / ours, best_rival / ours, time("plan, late"), time("silu gate"),
        2e-6 * static_cast<double>(shape.n * shape.k) / ours,
        2e-6 * static_cast<double>(shape.n * shape.k) * static_cast<double>(rows) / ours,
        ToString(plan).c_str());
    if (options_.all_kernels) {
      std::vector<const TimedGraph*> sorted;
      for (const auto& c : all) {
        if (c->name().find("rows") != std::string::npos) sorted.push_back(c.get());
      }
      std::sort(sorted.begin(), sorted.end(), [](const TimedGraph* a, const TimedGraph* b) {
        return a->MedianMicroseconds() < b->MedianMicroseconds();
      });
      for (const TimedGraph* c : sorted) {
        std::printf("    %8.2f  %s\n", c->MedianMicroseconds(), c->name().c_str());
      }
    }
    std::fflush(stdout);
  }

  void TimeLayersRows(const std::vector<std::unique_ptr<ColdWeights>>& weights,
                      const ColdWeights& gated, int64_t rows) {
    std::vector<std::unique_ptr<DeviceMemory>> x, y;
    std::vector<std::unique_ptr<CublasLtGemm>> rivals;
    std::vector<CublasLtAlgorithm> algorithms;
    std::string error;
    for (int i = 0; i < kLayerShapes; ++i) {
      const Shape& s = kShapes[i];
      x.push_back(std::make_unique<DeviceMemory>(2 * rows * s.k));
      y.push_back(std::make_unique<DeviceMemory>(2 * rows * s.n));
      Check(LaunchFill(InputKind::kNormal, 99, 1.0f, rows * s.k, x.back()->As<Bf16>(), nullptr));
      rivals.push_back(CublasLtGemm::Create(rows, s.n, s.k, &error));
      if (rivals.back() == nullptr) return;
      algorithms.push_back(rivals.back()->Heuristic(1).at(0));
    }
    Check(cudaDeviceSynchronize());
    const int calls = 8 * kLayerShapes;
    Candidates all;
    all.push_back(Capture(
        "cublaslt", calls,
        [&](int i, cudaStream_t stream) {
          const auto s = static_cast<size_t>(i % kLayerShapes);
          rivals[s]->Launch(algorithms[s], x[s]->As<Bf16>(), weights[s]->Rows(i / kLayerShapes),
                            y[s]->As<Bf16>(), workspace_.data, stream);
        },
        stream_.get()));
    const auto ours = [&](bool early, bool engine) {
      return [&, early, engine](int i, cudaStream_t stream) {
        const auto s = static_cast<size_t>(i % kLayerShapes);
        const bool is_gated = engine && s == 2;
        const ColdWeights& w = is_gated ? gated : *weights[s];
        Gemm op = Op(rows, is_gated ? kSiluGate : kBf16, *x[s], *y[s]);
        if (engine && s % 2 == 1) op.residual = y[s]->As<Bf16>();
        Launch(op, w.Packed(i / kLayerShapes), PlanGemm(w.layout(), rows, multiprocessors_), early,
               stream);
      };
    };
    all.push_back(Capture("early", calls, ours(true, false), stream_.get()));
    all.push_back(Capture("late", calls, ours(false, false), stream_.get()));
    all.push_back(Capture("fused", calls, ours(true, true), stream_.get()));
    Check(TimeInTurns(all, options_.rounds, options_.turn_milliseconds, stream_.get()));
    const double rival = all[0]->MedianMicroseconds() * kLayerShapes;
    std::printf("layer    M=%-5lld cublaslt %8.2f", static_cast<long long>(rows), rival);
    for (size_t i = 1; i < all.size(); ++i) {
      const double t = all[i]->MedianMicroseconds() * kLayerShapes;
      std::printf("  %s %8.2f %5.3fx", all[i]->name().c_str(), t, rival / t);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  Options options_;
  DeviceMemory workspace_;
  Stream stream_;
  int multiprocessors_ = 0;
};

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Options ParseOptions(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (flag == "--kernels") {
      o.all_kernels = true;
    } else if (flag == "--match") {
      o.all_kernels = true;
      o.match = value();
    } else if (flag == "--layer") {
      o.layer = true;
    } else if (flag == "--rounds") {
      o.rounds = std::atoi(value().c_str());
    } else if (flag == "--turn") {
      o.turn_milliseconds = std::atof(value().c_str());
    } else if (flag == "--prefetch") {
      o.prefetch_bytes = std::atoi(value().c_str());
    } else if (flag == "--max-stages") {
      o.max_stages = std::atoi(value().c_str());
    } else if (flag == "--band") {
      o.band = std::atoi(value().c_str());
    } else if (flag == "--shapes") {
      o.shapes = Split(value());
    } else if (flag == "--rows") {
      o.rows.clear();
      for (const std::string& rows : Split(value())) o.rows.push_back(std::atoll(rows.c_str()));
    } else {
      std::fprintf(stderr, "unknown option %s\n", flag.c_str());
      std::exit(2);
    }
  }
  return o;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  cudaDeviceProp card = {};
  Check(cudaGetDeviceProperties(&card, 0));
  std::printf("%s, %d multiprocessors, cuBLASLt %s\n", card.name, card.multiProcessorCount,
              CublasLtVersion().c_str());
  Bench bench(options);
  if (options.layer) {
    bench.TimeLayers();
    return 0;
  }
  for (const Shape& shape : kShapes) {
    const auto& wanted = options.shapes;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), shape.name) != wanted.end()) {
      bench.TimeShape(shape);
    }
  }
  return 0;
}

}  // namespace
}  // namespace isobit::cuda

int main(int argc, char** argv) { return isobit::cuda::Main(argc, argv); }
