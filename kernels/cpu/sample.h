#ifndef ISOBIT_KERNELS_CPU_SAMPLE_H_
#define ISOBIT_KERNELS_CPU_SAMPLE_H_

#include <cstdint>
#include <memory>

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// Runs SampleTokens operations. Holds scratch memory that grows with the largest operation seen.
class SampleRunner {
 public:
  // `context` must outlive the runner.
  explicit SampleRunner(CpuContext& context);
  ~SampleRunner();

  // Returns when the output is written.
  void Run(const SampleTokens& op);

 private:
  struct Scratch;

  CpuContext& context_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_SAMPLE_H_
