#ifndef ISOBIT_KERNELS_OPERATION_COST_H_
#define ISOBIT_KERNELS_OPERATION_COST_H_

// What an operation has to move and to compute: the numbers behind a roofline.
//
// Bytes are those that must cross the memory's border at least once: each input read once, each
// output written once. Flops are those of products and sums in matrix products alone, two for each
// multiply-add; what else an operation computes is small beside its bytes.

#include <cstdint>
#include <string>

#include "kernels/ops.h"

namespace isobit {

struct OperationCost {
  std::string name;  // the same for operations of one kind and shape of weight
  double bytes = 0;
  double flops = 0;
};

OperationCost CostOf(const Embed& op);
OperationCost CostOf(const RmsNorm& op);
OperationCost CostOf(const Gemm& op);
OperationCost CostOf(const RopeKvWrite& op);
OperationCost CostOf(const QkvProjection& op);
OperationCost CostOf(const ScoreTokens& op);
OperationCost CostOf(const SampleTokens& op);

// Positions lie in the backend's memory, so they are told: every sequence has the same number of
// rows, the first of them at `first_position`.
OperationCost CostOf(const Attention& op, int64_t first_position);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_OPERATION_COST_H_
