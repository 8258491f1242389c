// What builds without CUDA answer.

#include "absl/status/status.h"
#include "kernels/backends.h"

namespace isobit {
namespace {

absl::Status NoCuda() { return absl::UnimplementedError("this isobit was built without CUDA"); }

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions&) { return NoCuda(); }

absl::StatusOr<double> MeasureCudaReadBandwidth(const CudaOptions&) { return NoCuda(); }

}  // namespace isobit
