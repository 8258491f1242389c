#ifndef ISOBIT_KERNELS_CUDA_DEVICE_MEMORY_H_
#define ISOBIT_KERNELS_CUDA_DEVICE_MEMORY_H_

// Memory of the current device.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"

namespace isobit::cuda {

// cudaMalloc. ResourceExhausted says what for, the bytes asked for, and the bytes free.
inline absl::StatusOr<uint8_t*> AllocateDevice(size_t bytes, std::string_view what) {
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaSuccess) return static_cast<uint8_t*>(data);
  if (error != cudaErrorMemoryAllocation) return FromCuda(error, "allocating device memory");
  cudaGetLastError();  // does not stick: forget it
  size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  return absl::ResourceExhaustedError(
      absl::StrCat("not enough GPU memory for ", absl::string_view(what.data(), what.size()), ": ",
                   bytes, " bytes asked for, ", free_bytes, " of ", total_bytes, " are free"));
}

struct DeviceFree {
  void operator()(void* data) const { cudaFree(data); }
};

// An array of T in device memory.
template <typename T>
using DeviceArray = std::unique_ptr<T[], DeviceFree>;

template <typename T>
absl::StatusOr<DeviceArray<T>> AllocateDeviceArray(size_t count, std::string_view what) {
  absl::StatusOr<uint8_t*> data = AllocateDevice(count * sizeof(T), what);
  if (!data.ok()) return data.status();
  return DeviceArray<T>(reinterpret_cast<T*>(*data));
}
// The same, into `to`.
template <typename T>
absl::Status AllocateDeviceArray(DeviceArray<T>& to, size_t count, std::string_view what) {
  absl::StatusOr<DeviceArray<T>> array = AllocateDeviceArray<T>(count, what);
  if (!array.ok()) return array.status();
  to = *std::move(array);
  return absl::OkStatus();
}

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_DEVICE_MEMORY_H_
