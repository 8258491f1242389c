#ifndef ISOBIT_TOOLS_ISOBIT_BENCH_OPERATIONS_H_
#define ISOBIT_TOOLS_ISOBIT_BENCH_OPERATIONS_H_

// Parts of `isobit bench` on a GPU: a model's GEMMs, beside cuBLASLt where that is found, and its
// attention, both beside the device's ceilings. A model's numbers are enough; no weights are
// needed.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backends.h"
#include "runtime/api/json_writer.h"
#include "runtime/model/config.h"
#include "tools/isobit/ceilings.h"

namespace isobit {

struct GemmTimes {
  struct Shape {
    GemmShape shape;
    std::vector<GemmTime> times;
  };
  std::vector<Shape> shapes;  // as of GemmShapesOf

  std::string Text(const Ceilings& ceilings) const;
  void WriteJson(JsonWriter& out) const;  // a member "gemm"
};

absl::StatusOr<GemmTimes> TimeGemms(const CudaOptions& options, const ModelConfig& config);

struct AttentionTimes {
  std::vector<AttentionBatch> shapes;
  std::vector<double> seconds;  // of a layer

  std::string Text(const Ceilings& ceilings) const;
  void WriteJson(JsonWriter& out) const;  // a member "attention"
};

// Of batches whose contexts the model is made for, without windows.
absl::StatusOr<AttentionTimes> TimeAttention(const CudaOptions& options, const ModelConfig& config,
                                             int64_t block_size);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_BENCH_OPERATIONS_H_
