#include "kernels/reference/backend.h"

namespace isobit::reference {

void Run(const Embed& op) {
  const auto& table = static_cast<const ReferenceWeight&>(*op.table);
  const int64_t width = table.cols();
  for (int64_t r = 0; r < op.rows; ++r) {
    const int32_t token = ResolveTokenId(op.token_ids[r], op.sampled);
    assert(token < table.rows());
    const Bf16* row = table.Row(token);
    for (int64_t i = 0; i < width; ++i) {
      op.out[r * width + i] =
          op.scale == 1.0f ? row[i] : RoundToBf16(ieee::Mul(ToFloat(row[i]), op.scale));
    }
  }
}

}  // namespace isobit::reference
