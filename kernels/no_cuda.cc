// What builds without CUDA answer.

#include "absl/status/status.h"
#include "kernels/backends.h"

namespace isobit {
namespace {

absl::Status NoCuda() { return absl::UnimplementedError("this isobit was built without CUDA"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions&) { return NoCuda(); }

absl::StatusOr<double> MeasureCudaReadBandwidth(const CudaOptions&) { return NoCuda(); }

absl::StatusOr<CudaGemmPlans> TuneCudaGemms(const CudaOptions&, std::span<const GemmShape>, int64_t,
                                            const std::function<void(const std::string&)>&) {
  return NoCuda();
}

absl::StatusOr<std::vector<GemmTime>> TimeCudaGemm(const CudaOptions&, const GemmShape&,
                                                   std::span<const int64_t>) {
  return NoCuda();
}

absl::StatusOr<std::vector<double>> TimeCudaAttention(const CudaOptions&,
                                                      std::span<const AttentionBatch>, int) {
  return NoCuda();
}

}  // namespace isobit
