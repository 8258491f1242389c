#include "kernels/numerics/row_sum.h"
#include "kernels/reference/backend.h"

namespace isobit::reference {

void Run(const RmsNorm& op) {
  for (int64_t r = 0; r < op.rows; ++r) {
    const int64_t from = op.row_index != nullptr ? op.row_index[r] : r;
    RmsNormRow(op.x + from * op.width, op.weight, op.width, op.eps, op.out + r * op.width);
  }
}

}  // namespace isobit::reference
