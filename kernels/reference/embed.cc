#include <algorithm>

#include "kernels/reference/backend.h"

namespace isobit::reference {

void Run(const Embed& op) {
  const auto& table = static_cast<const ReferenceWeight&>(*op.table);
  const int64_t width = table.cols();
  for (int64_t r = 0; r < op.rows; ++r) {
    assert(op.token_ids[r] >= 0 && op.token_ids[r] < table.rows());
    std::copy_n(table.Row(op.token_ids[r]), width, op.out + r * width);
  }
}

}  // namespace isobit::reference
