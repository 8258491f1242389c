// CreateCudaBackend in builds without CUDA.

#include "absl/status/status.h"
#include "kernels/backends.h"

namespace isobit {

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions&) {
  return absl::UnimplementedError("this isobit was built without CUDA");
}

}  // namespace isobit
