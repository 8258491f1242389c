#ifndef ISOBIT_KERNELS_CUDA_GEMM_PLANNER_H_
#define ISOBIT_KERNELS_CUDA_GEMM_PLANNER_H_

// The plan of every GEMM that a backend runs: the kernel that was measured to be fastest, where a
// plan file says so, else the one that PlanGemm estimates to be. Each is worked out once; after
// that it is looked up.
//
// Not thread-safe.

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/gemm_plan_file.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/ops.h"

namespace isobit::cuda {

class GemmPlanner {
 public:
  explicit GemmPlanner(int multiprocessors) : multiprocessors_(multiprocessors) {}

  // Takes the place of earlier choices. Where two overlap, the first counts.
  void Use(std::vector<GemmChoice> choices);

  // For rows >= 1. The reference is good until Use().
  const GemmPlan& Plan(const PackedLayout& weight, Gemm::Epilogue epilogue, int64_t rows);

 private:
  // The weight's rows, columns and layout, the epilogue, rows of x.
  using Key = std::tuple<int64_t, int64_t, bool, Gemm::Epilogue, int64_t>;

  GemmPlan WorkOut(const PackedLayout& weight, Gemm::Epilogue epilogue, int64_t rows) const;

  const int multiprocessors_;
  std::vector<GemmChoice> choices_;
  std::map<Key, GemmPlan> plans_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_GEMM_PLANNER_H_
