#ifndef ISOBIT_KERNELS_CUDA_CUDA_STATUS_H_
#define ISOBIT_KERNELS_CUDA_CUDA_STATUS_H_

// Errors of the CUDA runtime as absl::Status.

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace isobit::cuda {

// "doing what: an illegal memory access was encountered (cudaErrorIllegalAddress)". Memory that is
// not there is ResourceExhausted, all else Internal.
inline absl::Status FromCuda(cudaError_t error, std::string_view doing) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message =
      absl::StrCat(absl::string_view(doing.data(), doing.size()), ": ", cudaGetErrorString(error),
                   " (", cudaGetErrorName(error), ")");
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_CUDA_STATUS_H_
