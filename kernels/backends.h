#ifndef ISOBIT_KERNELS_BACKENDS_H_
#define ISOBIT_KERNELS_BACKENDS_H_

// How backends are made. kernels/ops.h says what they are.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

struct CpuOptions {
  int threads = 0;  // 0: one a core that this process may use
  // "auto", or a dispatch target to be forced: "avx512", "avx2", "sse4", "neon", "scalar".
  std::string instructions = "auto";
};

// The fast CPU backend. InvalidArgument if the processor lacks the instructions asked for.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

// The oracle: every operation as a plain scalar loop over the functions of kernels/numerics, one
// thread.
std::unique_ptr<Backend> CreateReferenceBackend();

struct CudaOptions {
  int device = 0;  // as the CUDA runtime numbers them
  // A file of what TuneCudaGemms measured, or empty: GEMM kernels are chosen by an estimate. No bit
  // depends on it.
  std::string gemm_plans = {};
};

// The CUDA backend, on a Hopper GPU. Unavailable if there is no GPU or no driver; InvalidArgument
// if there is no such device; FailedPrecondition if it is of another kind, or if its arithmetic is
// found not to be the contract's, or if gemm_plans were measured on another GPU, driver or version;
// NotFound or DataLoss name a file of plans that can't be read; Unimplemented in builds without
// CUDA.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

// Bytes a second that the GPU's memory gives to a kernel that does nothing but read, measured now.
// Unimplemented in builds without CUDA.
absl::StatusOr<double> MeasureCudaReadBandwidth(const CudaOptions& options);

// A GEMM that a model needs, whatever the batch.
struct GemmShape {
  int64_t rows = 0;  // of the weight; with a gate, of both halves
  int64_t cols = 0;
  Gemm::Epilogue epilogue = Gemm::Epilogue::kBf16;
};

struct CudaGemmPlans {
  std::string text;  // for a file
  // Kernels whose bits were not the contract's, and the first difference of each. They are not
  // used; that there are any is a fault of the kernel or of the device.
  std::vector<std::string> rejected;
};

// Compares every GEMM kernel bit for bit with a plain one and times those that agree, for 1 to
// max_rows rows of activations, on a GPU that should have nothing else to do. `say` gets a line for
// every choice. Takes some seconds a shape; errors as of CreateCudaBackend, and ResourceExhausted.
absl::StatusOr<CudaGemmPlans> TuneCudaGemms(const CudaOptions& options,
                                            std::span<const GemmShape> shapes, int64_t max_rows,
                                            const std::function<void(const std::string&)>& say);

// ---- Times on a GPU that has nothing else to do. Errors as of CreateCudaBackend, and
// ResourceExhausted

// Of one call, the median of several, on weights that no cache holds.
struct GemmTime {
  int64_t rows = 0;    // of the activations
  double seconds = 0;  // of a call among many, when the card's clock has settled
  // The plain product of the same size in bf16 by cuBLASLt: its heuristic's first choice, and the
  // fastest of the first eight (of that choice and the two that are fastest when all eight run
  // once in turn; up to 128 rows only the first is tried). 0: the library was not found.
  double rival_seconds = 0, best_rival_seconds = 0;
};

// For each of some numbers of rows of activations; at least one, each >= 1.
absl::StatusOr<std::vector<GemmTime>> TimeCudaGemm(const CudaOptions& options,
                                                   const GemmShape& shape,
                                                   std::span<const int64_t> rows);

// A batch of equal sequences.
struct AttentionBatch {
  int sequences = 0;
  int cached = 0;  // keys before the first row
  int rows = 0;    // of each sequence
  int heads = 0, kv_heads = 0, head_dim = 0;
  int page_tokens = 0;
  float soft_cap = 0;  // as in Attention

  int64_t KvBytes() const {
    return int64_t{2} * sizeof(Bf16) * sequences * (cached + rows) * kv_heads * head_dim;
  }
  // Two products for every pair of a row and a key that it sees.
  double Flops() const {
    const double pairs = static_cast<double>(sequences) * rows * (cached + 0.5 * (rows + 1));
    return 4.0 * pairs * heads * head_dim;
  }
};

// Seconds of one layer, the median of `rounds`, keys and values read from memory.
absl::StatusOr<std::vector<double>> TimeCudaAttention(const CudaOptions& options,
                                                      std::span<const AttentionBatch> shapes,
                                                      int rounds);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_BACKENDS_H_
