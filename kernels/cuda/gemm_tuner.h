#ifndef ISOBIT_KERNELS_CUDA_GEMM_TUNER_H_
#define ISOBIT_KERNELS_CUDA_GEMM_TUNER_H_

// Chooses the GEMM kernel for each shape, epilogue and range of rows by measuring.
//
// A kernel is a candidate only after it has qualified: on every kind of input of qualify_inputs.h,
// at both ends of the range, into poisoned outputs and with poisoned shared memory, all its bits
// equal the plain mma.sync chain of qualify.h. Those that qualified are then timed against each
// other, on weights that L2 does not hold.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/gemm_plan_file.h"

namespace isobit::cuda {

struct GemmTunerOptions {
  int64_t max_rows = 8192;         // ranges end here
  int64_t max_fp32_rows = 512;     // the same for logits, which only a row a sequence needs
  int rounds = 5;                  // of timing, in each heat
  int64_t cold_bytes = 200000000;  // of weights that take turns, several times what L2 holds
  // How a candidate is launched; tests put a faulty one in its place.
  std::function<cudaError_t(const Gemm&, const PackedMatrix&, const GemmPlan&, const GemmLaunch&,
                            cudaStream_t)>
      launch = LaunchGemm;
};

// Ranges of rows within which one kernel is used: [begin, end] each, ascending, without gaps from 1
// to max_rows.
struct RowsRange {
  int64_t first;
  int64_t last;
};
std::vector<RowsRange> TunedRanges(int64_t max_rows);

// Of a device and of this build.
absl::StatusOr<GemmPlanKey> ReadGemmPlanKey(int device);

struct GemmTuning {
  std::vector<GemmChoice> choices;
  // Kernels that gave other bits than the reference: which, where, and the first difference.
  std::vector<std::string> rejected;
};

// Runs on the current device; takes some seconds a shape. `say` gets a line a range, for people.
// ResourceExhausted if the device's memory is too small for a shape twice and its outputs;
// Internal if the device fails, or no kernel qualifies.
absl::StatusOr<GemmTuning> TuneGemms(std::span<const GemmShape> shapes,
                                     const GemmTunerOptions& options,
                                     const std::function<void(const std::string&)>& say);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_TUNER_H_
