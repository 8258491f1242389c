#ifndef ISOBIT_KERNELS_CUDA_GEMM_PLAN_FILE_H_
#define ISOBIT_KERNELS_CUDA_GEMM_PLAN_FILE_H_

// Which GEMM kernel was measured to be fastest, on disk (JSON). Every kernel gives the same bits,
// so such a file can't change a result; one that was measured elsewhere can only be slow.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/ops.h"

namespace isobit::cuda {

// What the times depend on.
struct GemmPlanKey {
  std::string gpu;  // "NVIDIA H200"
  int multiprocessors = 0;
  int driver = 0;   // newest CUDA version that the driver serves, 13000 for 13.0
  int runtime = 0;  // CUDA version that the kernels were built with
  int kernels = 0;  // kGemmKernelsVersion

  friend bool operator==(const GemmPlanKey&, const GemmPlanKey&) = default;
};

// Counts changes of the kernels that can move their times.
inline constexpr int kGemmKernelsVersion = 6;

// "NVIDIA H200 (132 multiprocessors), driver 13000, runtime 13000, kernels 2".
std::string ToString(const GemmPlanKey& key);

// The kernel and its tiles for this weight and epilogue at first_rows <= rows <= last_rows.
struct GemmChoice {
  PackedLayout weight;
  Gemm::Epilogue epilogue = Gemm::Epilogue::kBf16;
  int64_t first_rows = 1;
  int64_t last_rows = 1;
  GemmKernelId kernel;
  int tile_tokens = 0;      // of PlanWithKernel
  double microseconds = 0;  // at last_rows, for people
};

struct GemmPlanFile {
  GemmPlanKey key;
  std::vector<GemmChoice> choices;
};

// "bf16", "silu gate", "gelu gate", "fp32".
const char* Name(Gemm::Epilogue epilogue);

std::string ToJson(const GemmPlanFile& file);

// DataLoss says what is wrong: no JSON, another format, a missing or impossible number, a kernel
// that does not exist, can't serve the weight, or multiplies fewer tokens at once.
absl::StatusOr<GemmPlanFile> ParseGemmPlanFile(std::string_view text);

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_PLAN_FILE_H_
