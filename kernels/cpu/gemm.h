#ifndef ISOBIT_KERNELS_CPU_GEMM_H_
#define ISOBIT_KERNELS_CPU_GEMM_H_

// Linear layers of the CPU backend (contract 2).

#include <memory>

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

struct GemmScratch;

// Runs Gemm operations whose weight is a PackedWeight. Holds scratch memory that grows with the
// largest operation seen, so that a running model allocates nothing.
class GemmRunner {
 public:
  // `context` must outlive the runner.
  explicit GemmRunner(CpuContext& context);
  ~GemmRunner();

  // Returns when the output is written. Counts tiles in the context.
  void Run(const Gemm& op);

 private:
  CpuContext& context_;
  std::unique_ptr<GemmScratch> scratch_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_GEMM_H_
