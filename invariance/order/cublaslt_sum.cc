#include "invariance/order/cublaslt_sum.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/numerics/bf16.h"

namespace isobit {
namespace {

using cuda::AllocateDeviceArray;
using cuda::CublasLtGemm;
using cuda::DeviceArray;
using cuda::FromCuda;

class CublasLtSum : public CancellingSum {
 public:
  CublasLtSum(const CublasLtGemm& gemm, const cuda::CublasLtAlgorithm& algorithm, int64_t rows,
              int64_t n, int64_t k)
      : gemm_(gemm), algorithm_(algorithm), rows_(rows), n_(n), k_(k) {}

  absl::Status Prepare() {
    x_.resize(static_cast<size_t>(rows_ * k_));
    y_.resize(static_cast<size_t>(rows_ * n_));
    absl::Status status;
    const auto allocate = [&](auto& array, size_t count, const char* what) {
      if (status.ok()) status = AllocateDeviceArray(array, count, what);
    };
    allocate(device_x_, x_.size(), "activations");
    allocate(device_y_, y_.size(), "outputs");
    allocate(device_w_, static_cast<size_t>(n_ * k_), "weights");
    allocate(workspace_, CublasLtGemm::kWorkspaceBytes, "a workspace");
    if (!status.ok()) return status;
    const std::vector<Bf16> ones(static_cast<size_t>(n_ * k_), kOneBf16);
    return FromCuda(cudaMemcpy(device_w_.get(), ones.data(), ones.size() * sizeof(Bf16),
                               cudaMemcpyHostToDevice),
                    "copying weights");
  }

  int64_t terms() const override { return k_; }
  int64_t most_units() const override { return 256; }  // bf16 holds the integers up to it

  absl::StatusOr<std::vector<int64_t>> Survivors(std::span<const CancellingProbe> probes) override {
    std::vector<int64_t> counts;
    const auto rows = static_cast<size_t>(rows_);
    for (size_t begin = 0; begin < probes.size(); begin += rows) {
      const auto batch = probes.subspan(begin, std::min(rows, probes.size() - begin));
      if (absl::Status s = Run(batch); !s.ok()) return s;
      for (size_t r = 0; r < batch.size(); ++r) {
        const absl::StatusOr<int64_t> count = Count(batch[r], r);
        if (!count.ok()) return count.status();
        counts.push_back(*count);
      }
    }
    return counts;
  }

 private:
  absl::Status Run(std::span<const CancellingProbe> batch) {
    std::ranges::fill(x_, Bf16{0});
    for (size_t r = 0; r < batch.size(); ++r) {
      Bf16* const row = x_.data() + r * static_cast<size_t>(k_);
      for (int32_t unit : batch[r].units) row[unit] = kOneBf16;
      row[batch[r].plus] = RoundToBf16(kHuge);
      row[batch[r].minus] = RoundToBf16(-kHuge);
    }
    const size_t x_bytes = x_.size() * sizeof(Bf16), y_bytes = y_.size() * sizeof(Bf16);
    cudaError_t error = cudaMemcpy(device_x_.get(), x_.data(), x_bytes, cudaMemcpyHostToDevice);
    if (error != cudaSuccess) return FromCuda(error, "copying activations");
    if (!gemm_.Launch(algorithm_, device_x_.get(), device_w_.get(), device_y_.get(),
                      workspace_.get(), nullptr)) {
      return absl::InternalError("cuBLASLt refuses to run the algorithm");
    }
    error = cudaMemcpy(y_.data(), device_y_.get(), y_bytes, cudaMemcpyDeviceToHost);
    return FromCuda(error, "running the algorithm");
  }

  absl::StatusOr<int64_t> Count(const CancellingProbe& probe, size_t row) const {
    const std::span<const Bf16> y =
        std::span(y_).subspan(row * static_cast<size_t>(n_), static_cast<size_t>(n_));
    for (size_t column = 1; column < y.size(); ++column) {
      if (y[column].bits == y[0].bits) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "columns 0 and ", column, " add the same terms in different orders: with huge terms ",
          probe.plus, " and ", probe.minus, ", ", ToFloat(y[0]), " and ", ToFloat(y[column]),
          " ones survive"));
    }
    return AsCount(ToFloat(y[0]), probe.units.size());
  }

  const CublasLtGemm& gemm_;
  const cuda::CublasLtAlgorithm algorithm_;
  const int64_t rows_, n_, k_;
  std::vector<Bf16> x_, y_;
  DeviceArray<Bf16> device_x_, device_y_, device_w_;
  DeviceArray<uint8_t> workspace_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CancellingSum>> MakeCublasLtSum(
    const cuda::CublasLtGemm& gemm, const cuda::CublasLtAlgorithm& algorithm, int64_t rows,
    int64_t n, int64_t k) {
  auto sum = std::make_unique<CublasLtSum>(gemm, algorithm, rows, n, k);
  if (absl::Status s = sum->Prepare(); !s.ok()) return s;
  return sum;
}

}  // namespace isobit
