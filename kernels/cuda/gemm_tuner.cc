#include "kernels/cuda/gemm_tuner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/packed_weight.h"
#include "kernels/cuda/qualify.h"
#include "kernels/cuda/qualify_inputs.h"
#include "kernels/cuda/stream.h"
#include "kernels/cuda/timed_graph.h"

namespace isobit::cuda {
namespace {

// A kernel that is measured to be this much faster than the estimated one takes its place. Less is
// within what the card's temperature and what runs beside it in a step change.
constexpr double kWorthwhile = 0.97;
// What a kernel may take longer than the fastest in the short heat to get into the long one.
constexpr double kClose = 1.06;
constexpr double kShortHeatMs = 1, kLongHeatMs = 40;
constexpr int kShortHeatCalls = 32, kLongHeatCalls = 400;  // at most
constexpr int kPoison = 0x7b;

std::string ToString(const GemmShape& shape) {
  return absl::StrCat(shape.rows, " x ", shape.cols, ", ", Name(shape.epilogue));
}

// A candidate in one range. With fewer rows its tiles are no higher than at the last one.
struct Contender {
  GemmPlan plan;  // at the range's last row
  bool qualified = true;
  double microseconds = 0;
};

class ShapeTuner {
 public:
  ShapeTuner(const GemmShape& shape, const GemmTunerOptions& options, GemmTuning& tuning,
             const std::function<void(const std::string&)>& say)
      : shape_(shape),
        options_(options),
        tuning_(tuning),
        say_(say),
        layout_{shape.rows, shape.cols, IsGate(shape.epilogue)},
        outputs_(layout_.gate_up ? shape.rows / 2 : shape.rows),
        is_fp32_(shape.epilogue == Gemm::Epilogue::kFp32),
        ranges_(TunedRanges(is_fp32_ ? options.max_fp32_rows : options.max_rows)),
        most_rows_(ranges_.back().last) {}

  absl::Status Run() {
    cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, Device());
    if (absl::Status s = stream_.Open(); !s.ok()) return s;
    if (absl::Status s = Allocate(); !s.ok()) return s;
    for (const RowsRange& range : ranges_) contenders_.push_back(ContendersOf(range));
    for (const InputKind kind : kInputKinds)
      if (absl::Status s = QualifyOn(kind); !s.ok()) return s;
    if (absl::Status s = FillForTiming(); !s.ok()) return s;
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (absl::Status s = Choose(ranges_[i], contenders_[i]); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  ShapeTuner(const ShapeTuner&) = delete;
  ShapeTuner& operator=(const ShapeTuner&) = delete;

 private:
  static int Device() {
    int device = 0;
    cudaGetDevice(&device);
    return device;
  }
  int ElementBytes() const { return is_fp32_ ? 4 : 2; }
  size_t OutputBytes(int64_t rows) const {
    return static_cast<size_t>(rows * outputs_) * static_cast<size_t>(ElementBytes());
  }

  absl::Status Allocate() {
    const auto array = [](auto& to, int64_t count, const char* what) {
      return AllocateDeviceArray(to, static_cast<size_t>(count), what);
    };
    const int64_t copies =
        std::max<int64_t>(2, (options_.cold_bytes + layout_.Bytes() - 1) / layout_.Bytes());
    packed_.resize(static_cast<size_t>(copies));
    for (auto& copy : packed_) {
      if (absl::Status s = array(copy, layout_.Bytes(), "weights"); !s.ok()) return s;
    }
    if (absl::Status s = array(weights_, shape_.rows * shape_.cols, "weights by rows"); !s.ok())
      return s;
    if (absl::Status s = array(x_, most_rows_ * shape_.cols, "activations"); !s.ok()) return s;
    if (absl::Status s = array(chains_, most_rows_ * shape_.rows, "reference chains"); !s.ok())
      return s;
    if (absl::Status s = array(bias_, shape_.rows, "a bias"); !s.ok()) return s;
    if (absl::Status s = array(residual_, most_rows_ * outputs_, "a residual"); !s.ok()) return s;
    const auto bytes = static_cast<int64_t>(OutputBytes(most_rows_));
    if (absl::Status s = array(expected_, bytes, "outputs"); !s.ok()) return s;
    return array(actual_, bytes, "outputs");
  }

  std::vector<Contender> ContendersOf(const RowsRange& range) const {
    std::vector<Contender> all;
    for (const GemmKernelId& kernel : GemmKernels()) {
      for (const GemmPlan& plan : PlansWithKernel(kernel, layout_, range.last, multiprocessors_)) {
        all.push_back({plan});
      }
    }
    return all;
  }

  // Of the first `rows` rows, into `out`.
  Gemm Operation(int64_t rows, uint8_t* out) const {
    Gemm op;
    op.rows = rows;
    op.x = x_.get();
    op.epilogue = shape_.epilogue;
    op.out_bf16 = is_fp32_ ? nullptr : reinterpret_cast<Bf16*>(out);
    op.out_fp32 = is_fp32_ ? reinterpret_cast<float*>(out) : nullptr;
    return op;
  }
  // With all that this epilogue can add.
  Gemm FullOperation(int64_t rows, uint8_t* out) const {
    Gemm op = Operation(rows, out);
    if (!layout_.gate_up) {
      op.bias = bias_.get();
      op.scale = 0.22f;
    }
    if (shape_.epilogue == Gemm::Epilogue::kBf16) op.residual = residual_.get();
    return op;
  }

  cudaError_t Pack(uint8_t* to) {
    cudaError_t error = cudaMemsetAsync(to, 0, static_cast<size_t>(layout_.Bytes()), stream_.get());
    if (error != cudaSuccess) return error;
    return LaunchPackRows(weights_.get(), 0, shape_.rows, layout_, to, stream_.get());
  }

  // Inputs of a kind and what they should give, for the most rows: fewer rows are the first of
  // them, since no row knows of others.
  cudaError_t Prepare(InputKind kind) {
    const auto seed = static_cast<uint64_t>(kind) + 1;
    const int64_t rows = most_rows_;
    cudaError_t error =
        LaunchFill(kind, 2 * seed, 0.05f, shape_.rows * shape_.cols, weights_.get(), stream_.get());
    if (error == cudaSuccess) error = Pack(packed_[0].get());
    if (error == cudaSuccess) {
      error = LaunchFill(kind, 2 * seed + 1, 1.0f, rows * shape_.cols, x_.get(), stream_.get());
    }
    if (error == cudaSuccess) {
      error = LaunchReferenceChains(x_.get(), weights_.get(), rows, shape_.rows, shape_.cols,
                                    chains_.get(), stream_.get());
    }
    // Any fp32 do for a bias: take the chains of a row.
    if (error == cudaSuccess) {
      error = cudaMemcpyAsync(bias_.get(), chains_.get(),
                              static_cast<size_t>(shape_.rows) * sizeof(float),
                              cudaMemcpyDeviceToDevice, stream_.get());
    }
    if (error == cudaSuccess) {
      error =
          LaunchFill(InputKind::kNormal, 77, 3.0f, rows * outputs_, residual_.get(), stream_.get());
    }
    if (error == cudaSuccess) {
      error = LaunchReferenceEpilogue(FullOperation(rows, expected_.get()), chains_.get(),
                                      shape_.rows, stream_.get());
    }
    return error;
  }

  absl::Status QualifyOn(InputKind kind) {
    if (const cudaError_t error = Prepare(kind); error != cudaSuccess) {
      return FromCuda(error, "computing the reference");
    }
    for (size_t i = 0; i < ranges_.size(); ++i) {
      for (Contender& contender : contenders_[i]) {
        for (const int64_t rows : {ranges_[i].first, ranges_[i].last}) {
          if (!contender.qualified) break;
          if (absl::Status s = Qualify(kind, rows, contender); !s.ok()) return s;
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Qualify(InputKind kind, int64_t rows, Contender& contender) {
    const auto plan = PlanWithKernel(contender.plan.kernel, layout_, rows, multiprocessors_,
                                     contender.plan.tokens);
    const PackedMatrix matrix = {layout_, packed_[0].get()};
    cudaError_t error = cudaMemsetAsync(actual_.get(), kPoison, OutputBytes(rows), stream_.get());
    if (error == cudaSuccess) error = LaunchPoisonSharedMemory(stream_.get());
    if (error == cudaSuccess) {
      error = options_.launch(FullOperation(rows, actual_.get()), matrix, *plan, GemmLaunch{},
                              stream_.get());
    }
    BitDifference difference;
    if (error == cudaSuccess) {
      error = CompareBits(expected_.get(), actual_.get(), rows * outputs_, ElementBytes(),
                          &difference, stream_.get());
    }
    if (error != cudaSuccess)
      return FromCuda(error, absl::StrCat("running ", cuda::ToString(*plan)));
    if (difference.count == 0) return absl::OkStatus();
    contender.qualified = false;
    tuning_.rejected.push_back(absl::StrCat(ToString(shape_), ", ", rows, " rows, ", Name(kind),
                                            " inputs: ", cuda::ToString(*plan), ": ",
                                            Describe(difference, rows * outputs_, outputs_)));
    return absl::OkStatus();
  }

  absl::Status FillForTiming() {
    cudaError_t error = LaunchFill(InputKind::kNormal, 1, 0.02f, shape_.rows * shape_.cols,
                                   weights_.get(), stream_.get());
    for (auto& copy : packed_) {
      if (error == cudaSuccess) error = Pack(copy.get());
    }
    if (error == cudaSuccess) {
      error = LaunchFill(InputKind::kNormal, 2, 1.0f, most_rows_ * shape_.cols, x_.get(),
                         stream_.get());
    }
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream_.get());
    return FromCuda(error, "filling weights");
  }

  // As many launches as take about this long at the device's best rates.
  int Calls(int64_t rows, double milliseconds, int most) const {
    const double elements = static_cast<double>(shape_.rows) * static_cast<double>(shape_.cols);
    const double microseconds =
        std::max(2 * elements / 4.5e6, 2 * elements * static_cast<double>(rows) / 7e8);
    return std::clamp(static_cast<int>(1000 * milliseconds / microseconds), 2, most);
  }

  // Times all contenders, each a graph of so many launches.
  absl::Status Time(const RowsRange& range, int calls, int rounds,
                    std::vector<Contender>& contenders) {
    std::vector<std::unique_ptr<TimedGraph>> graphs;
    for (const Contender& contender : contenders) {
      auto graph = TimedGraph::Capture(
          cuda::ToString(contender.plan), calls,
          [&](int i, cudaStream_t stream) {
            const auto& weights = packed_[static_cast<size_t>(i) % packed_.size()];
            return options_.launch(Operation(range.last, actual_.get()), {layout_, weights.get()},
                                   contender.plan, GemmLaunch{}, stream);
          },
          stream_.get());
      if (!graph.ok()) return graph.status();
      graphs.push_back(*std::move(graph));
    }
    if (absl::Status s = TimeInTurns(graphs, rounds, kOneRun, stream_.get()); !s.ok()) return s;
    for (size_t i = 0; i < graphs.size(); ++i) {
      contenders[i].microseconds = graphs[i]->MedianMicroseconds();
    }
    return absl::OkStatus();
  }

  // Fast ones first.
  static void Sort(std::vector<Contender>& contenders) {
    std::stable_sort(
        contenders.begin(), contenders.end(),
        [](const Contender& a, const Contender& b) { return a.microseconds < b.microseconds; });
  }

  // Two heats: all of them for a moment each, then those that come close, and the one that the
  // estimate names, for so long that a card at its power limit has settled to the clock it can
  // hold.
  absl::Status Choose(const RowsRange& range, std::vector<Contender> contenders) {
    std::erase_if(contenders, [](const Contender& c) { return !c.qualified; });
    if (contenders.empty()) {
      return absl::InternalError(
          absl::StrCat("no GEMM kernel qualifies for ", ToString(shape_), " at ", range.last,
                       " rows; the first that failed: ", tuning_.rejected.front()));
    }
    const int short_heat = Calls(range.last, kShortHeatMs, kShortHeatCalls);
    if (absl::Status s = Time(range, short_heat, options_.rounds, contenders); !s.ok()) return s;
    Sort(contenders);
    const GemmPlan plan = PlanGemm(layout_, range.last, multiprocessors_);
    const auto is_estimated = [&plan](const Contender& c) {
      return c.plan.kernel == plan.kernel && c.plan.tokens == plan.tokens;
    };
    const double close = kClose * contenders.front().microseconds;
    std::erase_if(contenders,
                  [&](const Contender& c) { return c.microseconds > close && !is_estimated(c); });
    const int long_heat = Calls(range.last, kLongHeatMs, kLongHeatCalls);
    if (absl::Status s = Time(range, long_heat, options_.rounds, contenders); !s.ok()) return s;
    Sort(contenders);

    const auto known = std::find_if(contenders.begin(), contenders.end(), is_estimated);
    const bool as_estimated = known != contenders.end() &&
                              contenders.front().microseconds > kWorthwhile * known->microseconds;
    const Contender& best = as_estimated ? *known : contenders.front();
    tuning_.choices.push_back({layout_, shape_.epilogue, range.first, range.last, best.plan.kernel,
                               best.plan.tokens, best.microseconds});
    say_(absl::StrFormat("%-30s rows %5d to %5d  %9.2f us  %s; %s", ToString(shape_), range.first,
                         range.last, best.microseconds,
                         as_estimated ? "as estimated"
                         : known != contenders.end()
                             ? absl::StrFormat("instead of %.2f us", known->microseconds)
                             : "the estimated one did not qualify",
                         cuda::ToString(best.plan)));
    return absl::OkStatus();
  }

  const GemmShape shape_;
  const GemmTunerOptions& options_;
  GemmTuning& tuning_;
  const std::function<void(const std::string&)>& say_;
  const PackedLayout layout_;
  const int64_t outputs_;
  const bool is_fp32_;
  const std::vector<RowsRange> ranges_;
  const int64_t most_rows_;
  int multiprocessors_ = 0;
  Stream stream_;
  std::vector<std::vector<Contender>> contenders_;  // of each range

  std::vector<DeviceArray<uint8_t>> packed_;  // the same weights several times
  DeviceArray<Bf16> weights_;                 // by rows
  DeviceArray<Bf16> x_;
  DeviceArray<float> chains_;
  DeviceArray<float> bias_;
  DeviceArray<Bf16> residual_;
  DeviceArray<uint8_t> expected_, actual_;
};

}  // namespace

std::vector<RowsRange> TunedRanges(int64_t max_rows) {
  // Kernels see rows in eights and in tiles of 64; above that, costs change slowly.
  constexpr int64_t kLast[] = {8,    16,   24,   32,   40,   48,   56,    64,   80,  96,
                               112,  128,  160,  192,  256,  320,  384,   512,  768, 1024,
                               1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
  std::vector<RowsRange> ranges;
  int64_t first = 1;
  for (const int64_t last : kLast) {
    if (first > max_rows) break;
    ranges.push_back({first, std::min(last, max_rows)});
    first = last + 1;
  }
  return ranges;
}

absl::StatusOr<GemmPlanKey> ReadGemmPlanKey(int device) {
  cudaDeviceProp properties = {};
  GemmPlanKey key;
  key.kernels = kGemmKernelsVersion;
  cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) error = cudaDriverGetVersion(&key.driver);
  if (error == cudaSuccess) error = cudaRuntimeGetVersion(&key.runtime);
  if (error != cudaSuccess) return FromCuda(error, "asking for the GPU's name and versions");
  key.gpu = properties.name;
  key.multiprocessors = properties.multiProcessorCount;
  return key;
}

absl::StatusOr<GemmTuning> TuneGemms(std::span<const GemmShape> shapes,
                                     const GemmTunerOptions& options,
                                     const std::function<void(const std::string&)>& say) {
  GemmTuning tuning;
  for (const GemmShape& shape : shapes) {
    if (absl::Status s = ShapeTuner(shape, options, tuning, say).Run(); !s.ok()) return s;
  }
  return tuning;
}

}  // namespace isobit::cuda
