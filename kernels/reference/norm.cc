#include "kernels/numerics/row_sum.h"
#include "kernels/reference/backend.h"

namespace isobit::reference {

void Run(const RmsNorm& op) {
  const int64_t stride = op.stride != 0 ? op.stride : op.groups * op.width;
  for (int64_t r = 0; r < op.rows; ++r) {
    const int64_t from = op.row_index != nullptr ? op.row_index[r] : r;
    for (int64_t g = 0; g < op.groups; ++g) {
      const Bf16* x = op.x + from * stride + g * op.width;
      Bf16* out = op.out + r * stride + g * op.width;
      if (op.wide_weight == nullptr) {
        RmsNormRow(x, op.weight, op.width, op.eps, out);
      } else {
        const Bf16* residual = op.residual != nullptr ? op.residual + r * stride : nullptr;
        WideNormRow(x, op.wide_weight, op.width, op.eps, residual, out);
      }
    }
  }
}

}  // namespace isobit::reference
