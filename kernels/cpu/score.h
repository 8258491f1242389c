#ifndef ISOBIT_KERNELS_CPU_SCORE_H_
#define ISOBIT_KERNELS_CPU_SCORE_H_

#include <cstdint>
#include <memory>

#include "kernels/cpu/context.h"
#include "kernels/ops.h"

namespace isobit {

// Runs ScoreTokens operations. Holds scratch memory that grows with the largest operation seen.
class ScoreRunner {
 public:
  // `context` must outlive the runner.
  explicit ScoreRunner(CpuContext& context);
  ~ScoreRunner();

  // Returns when the output is written.
  void Run(const ScoreTokens& op);

 private:
  struct Scratch;

  CpuContext& context_;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_SCORE_H_
