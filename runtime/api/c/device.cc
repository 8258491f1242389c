#include "runtime/api/c/device.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace isobit::c {

absl::StatusOr<std::unique_ptr<Backend>> CreateDevice(const DeviceOptions& options) {
  if (options.device == "reference") return CreateReferenceBackend();
  if (options.device == "cpu") return CreateCpuBackend(options.cpu);
  if (options.device == "cuda") return CreateCudaBackend({});
  if (options.device == "auto") {
    absl::StatusOr<std::unique_ptr<Backend>> cuda = CreateCudaBackend({});
    return cuda.ok() ? std::move(cuda) : CreateCpuBackend(options.cpu);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("device must be auto, cpu, cuda or reference, got ", options.device));
}

}  // namespace isobit::c
