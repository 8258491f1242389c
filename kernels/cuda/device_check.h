#ifndef ISOBIT_KERNELS_CUDA_DEVICE_CHECK_H_
#define ISOBIT_KERNELS_CUDA_DEVICE_CHECK_H_

// What the kernels take for granted of a device, checked on it when a backend is made. Takes a few
// milliseconds.

#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace isobit::cuda {

// OK if, on the current device,
//  - the hardware's exponential, rounded to bf16, is GridExp2 at every point of its grid from -128
//    to 128 (contract 4), and
//  - the tensor core is Dot16 (contract 1) on a few hundred thousand steps with exponents near and
//    far, subnormals, infinities and NaN.
// FailedPrecondition with the first difference if not.
absl::Status CheckDeviceArithmetic(cudaStream_t stream);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_DEVICE_CHECK_H_
