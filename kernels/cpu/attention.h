#ifndef ISOBIT_KERNELS_CPU_ATTENTION_H_
#define ISOBIT_KERNELS_CPU_ATTENTION_H_

// Paged attention of the CPU backend (contract 4).

#include <memory>

#include "absl/status/status.h"
#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// OK, or why the runner below can't serve a head size.
absl::Status CheckCpuHeadDim(int head_dim);

struct AttentionScratch;

// Runs Attention operations whose cache is a CpuKvCache. Holds scratch memory that grows with the
// largest operation seen, so that a running model allocates nothing.
class AttentionRunner {
 public:
  // `context` must outlive the runner.
  explicit AttentionRunner(CpuContext& context);
  ~AttentionRunner();

  // Returns when the output is written. Counts tiles in the context.
  void Run(const Attention& op);

 private:
  CpuContext& context_;
  std::unique_ptr<AttentionScratch> scratch_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_ATTENTION_H_
