#ifndef ISOBIT_RUNTIME_API_C_DEVICE_H_
#define ISOBIT_RUNTIME_API_C_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backends.h"

namespace isobit::c {

struct DeviceOptions {
  std::string device = "auto";  // "auto" (CUDA where it can be used), "cpu", "cuda", "reference"
  CpuOptions cpu;
};

// InvalidArgument for a device of another name, and as the functions of kernels/backends.h.
absl::StatusOr<std::unique_ptr<Backend>> CreateDevice(const DeviceOptions& options);

}  // namespace isobit::c

#endif  // ISOBIT_RUNTIME_API_C_DEVICE_H_
