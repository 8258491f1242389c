#ifndef ISOBIT_TOOLS_ISOBIT_CEILINGS_H_
#define ISOBIT_TOOLS_ISOBIT_CEILINGS_H_

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

// The ceilings of a device, measured now.
struct Ceilings {
  // What the device's memory gives to code that only reads what no cache holds: the ceiling of
  // decoding, which reads every weight once a token.
  double read_bytes_per_second = 0;
  double flops_per_second = 0;  // of the backend's own GEMM at a size that suits it
};

// Needs about 1 GB of a GPU's memory while it runs.
absl::StatusOr<Ceilings> MeasureCeilings(Backend& backend);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_CEILINGS_H_
