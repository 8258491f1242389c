#include "kernels/cuda/gemm_planner.h"

#include <optional>
#include <utility>

namespace isobit::cuda {

void GemmPlanner::Use(std::vector<GemmChoice> choices) {
  choices_ = std::move(choices);
  plans_.clear();
}

GemmPlan GemmPlanner::WorkOut(const PackedLayout& weight, Gemm::Epilogue epilogue,
                              int64_t rows) const {
  for (const GemmChoice& choice : choices_) {
    if (choice.weight.rows != weight.rows || choice.weight.cols != weight.cols ||
        choice.epilogue != epilogue || rows < choice.first_rows || rows > choice.last_rows) {
      continue;
    }
    if (const auto plan =
            PlanWithKernel(choice.kernel, weight, rows, multiprocessors_, choice.tile_tokens)) {
      return *plan;
    }
  }
  return PlanGemm(weight, rows, multiprocessors_);
}

const GemmPlan& GemmPlanner::Plan(const PackedLayout& weight, Gemm::Epilogue epilogue,
                                  int64_t rows) {
  const Key key = {weight.rows, weight.cols, weight.gate_up, epilogue, rows};
  auto known = plans_.find(key);
  if (known == plans_.end()) {
    known = plans_.emplace(key, WorkOut(weight, epilogue, rows)).first;
  }
  return known->second;
}

}  // namespace isobit::cuda
