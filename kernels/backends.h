#ifndef ISOBIT_KERNELS_BACKENDS_H_
#define ISOBIT_KERNELS_BACKENDS_H_

// How backends are made. kernels/ops.h says what they are.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

struct CpuOptions {
  int threads = 0;  // 0: one a core that this process may use
  // "auto", or a dispatch target to be forced: "avx512", "avx2", "sse4", "neon", "scalar".
  std::string instructions = "auto";
};

// The fast CPU backend. InvalidArgument if the processor lacks the instructions asked for.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

// The oracle: every operation as a plain scalar loop over the functions of kernels/numerics, one
// thread.
std::unique_ptr<Backend> CreateReferenceBackend();

struct CudaOptions {
  int device = 0;  // as the CUDA runtime numbers them
};

// The CUDA backend, on a Hopper GPU. Unavailable if there is no GPU or no driver; InvalidArgument
// if there is no such device; FailedPrecondition if it is of another kind, or if its arithmetic is
// found not to be the contract's; Unimplemented in builds without CUDA.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

// Bytes a second that the GPU's memory gives to a kernel that does nothing but read, measured now.
// Unimplemented in builds without CUDA.
absl::StatusOr<double> MeasureCudaReadBandwidth(const CudaOptions& options);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_BACKENDS_H_
