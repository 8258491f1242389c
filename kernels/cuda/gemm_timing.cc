#include "kernels/cuda/gemm_timing.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/qualify_inputs.h"
#include "kernels/cuda/stream.h"

namespace isobit::cuda {
namespace {

constexpr int kRounds = 3;
// Up to this many rows cuBLASLt's first choice is what everybody gets; above, the best of several.
constexpr int64_t kFirstChoiceRows = 128;
constexpr int kRivals = 8;

class GemmTimer {
 public:
  GemmTimer(const ColdWeights& weights, Gemm::Epilogue epilogue, int multiprocessors)
      : weights_(weights), epilogue_(epilogue), multiprocessors_(multiprocessors) {}

  absl::Status Allocate(int64_t most_rows) {
    const PackedLayout& layout = weights_.layout();
    const auto xs = static_cast<size_t>(most_rows * layout.cols);
    // Room for fp32, and for all rows of a gate-up matrix, which are the rival's outputs.
    const auto ys = static_cast<size_t>(most_rows * layout.rows);
    absl::Status status = AllocateDeviceArray(x_, xs, "activations");
    if (status.ok()) status = AllocateDeviceArray(y_, ys, "outputs");
    if (status.ok()) {
      status = AllocateDeviceArray(workspace_, kRivalWorkspaceBytes, "cuBLASLt's workspace");
    }
    if (status.ok()) status = stream_.Open();
    if (!status.ok()) return status;
    const cudaError_t error =
        LaunchFill(InputKind::kNormal, 99, 1.0f, most_rows * layout.cols, x_.get(), stream_.get());
    return FromCuda(error, "filling activations");
  }

  absl::StatusOr<GemmTime> Time(int64_t rows) {
    const PackedLayout& layout = weights_.layout();
    const int calls = TimedCalls(layout.rows, layout.cols, rows);
    auto graphs =
        CaptureCublasLt(weights_, rows, rows <= kFirstChoiceRows ? 1 : kRivals, calls, x_.get(),
                        reinterpret_cast<Bf16*>(y_.get()), workspace_.get(), stream_.get());
    if (!graphs.ok()) return graphs.status();
    if (absl::Status s = KeepFastest(*graphs, stream_.get()); !s.ok()) return s;
    const size_t rivals = graphs->size();
    auto ours = CaptureOurs(rows, calls);
    if (!ours.ok()) return ours.status();
    graphs->push_back(*std::move(ours));
    if (absl::Status s = TimeInTurns(*graphs, kRounds, kSettledTurnMs, stream_.get()); !s.ok()) {
      return s;
    }

    const auto seconds = [&](size_t i) { return 1e-6 * (*graphs)[i]->MedianMicroseconds(); };
    GemmTime time = {.rows = rows, .seconds = seconds(rivals)};
    for (size_t i = 0; i < rivals; ++i) {
      if (i == 0) time.rival_seconds = time.best_rival_seconds = seconds(i);
      time.best_rival_seconds = std::min(time.best_rival_seconds, seconds(i));
    }
    return time;
  }

 private:
  absl::StatusOr<std::unique_ptr<TimedGraph>> CaptureOurs(int64_t rows, int calls) {
    Gemm op;
    op.rows = rows;
    op.x = x_.get();
    op.epilogue = epilogue_;
    if (epilogue_ == Gemm::Epilogue::kFp32) {
      op.out_fp32 = y_.get();
    } else {
      op.out_bf16 = reinterpret_cast<Bf16*>(y_.get());
    }
    const GemmPlan plan = PlanGemm(weights_.layout(), rows, multiprocessors_);
    return TimedGraph::Capture(
        ToString(plan), calls,
        [&](int i, cudaStream_t stream) {
          return LaunchGemm(op, weights_.Packed(i), plan, GemmLaunch{}, stream);
        },
        stream_.get());
  }

  const ColdWeights& weights_;
  const Gemm::Epilogue epilogue_;
  const int multiprocessors_;
  DeviceArray<Bf16> x_;
  DeviceArray<float> y_;
  DeviceArray<uint8_t> workspace_;
  Stream stream_;
};

}  // namespace

absl::Status KeepFastest(std::vector<std::unique_ptr<TimedGraph>>& rivals, cudaStream_t stream) {
  constexpr size_t kKept = 3;
  if (rivals.size() <= kKept) return absl::OkStatus();
  if (absl::Status s = TimeInTurns(rivals, kRounds, kOneRun, stream); !s.ok()) return s;
  std::sort(rivals.begin() + 1, rivals.end(), [](const auto& one, const auto& other) {
    return one->MedianMicroseconds() < other->MedianMicroseconds();
  });
  rivals.resize(kKept);
  return absl::OkStatus();
}

int TimedCalls(int64_t n, int64_t k, int64_t rows) {
  // About what it takes, at the rate of memory or of the tensor cores; a graph of 1.2 ms.
  const double elements = static_cast<double>(n * k);
  const double microseconds =
      std::max(2.0 * elements / 4.5e6, 2.0 * elements * static_cast<double>(rows) / 7e8);
  return std::clamp(static_cast<int>(1200 / microseconds), 2, 32);
}

absl::StatusOr<std::vector<GemmTime>> TimeGemm(const GemmShape& shape,
                                               std::span<const int64_t> rows, int multiprocessors) {
  const PackedLayout layout = {shape.rows, shape.cols, IsGate(shape.epilogue)};
  const auto weights = ColdWeights::Create(layout, ColdWeights::CopiesFor(layout));
  if (!weights.ok()) return weights.status();
  GemmTimer timer(**weights, shape.epilogue, multiprocessors);
  if (absl::Status s = timer.Allocate(*std::max_element(rows.begin(), rows.end())); !s.ok()) {
    return s;
  }
  std::vector<GemmTime> times;
  for (const int64_t count : rows) {
    const auto time = timer.Time(count);
    if (!time.ok()) return time.status();
    times.push_back(*time);
  }
  return times;
}

}  // namespace isobit::cuda
