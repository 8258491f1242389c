#ifndef ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_PLAN_RUN_H_
#define ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_PLAN_RUN_H_

// What the plan kernel makes of a batch, for the prefill kernel.

#include <vector>

#include "kernels/cuda/attention_params.h"
#include "tests/kernels/cuda/attention_case.h"

namespace isobit {

struct PrefillPlan {
  cuda::PlanCounts counts = {};
  std::vector<cuda::AttentionTile> tiles;
};

// For a prefill kernel on `ctas` CTAs. Needs a GPU. Fails the test on an error.
PrefillPlan PlanPrefillOnGpu(const AttentionShape& shape, const std::vector<SequenceRows>& rows,
                             int ctas);

// Of the current device.
int Multiprocessors();

}  // namespace isobit

#endif  // ISOBIT_TESTS_KERNELS_CUDA_ATTENTION_PLAN_RUN_H_
