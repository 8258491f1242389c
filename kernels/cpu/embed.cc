#include "kernels/cpu/embed.h"

#include <cassert>
#include <cstdint>

#include "kernels/cpu/packed_weight.h"

namespace isobit {

void RunEmbed(CpuContext& context, const Embed& op) {
  const auto& table = static_cast<const PackedWeight&>(*op.table);
  ForRows(context, op.rows, table.cols(), [&](int64_t r) {
    const int32_t token = ResolveTokenId(op.token_ids[r], op.sampled);
    assert(token < table.rows());
    Bf16* out = op.out + r * table.cols();
    table.CopyRow(token, out);
    if (op.scale == 1.0f) return;
    for (int64_t i = 0; i < table.cols(); ++i) {
      out[i] = RoundToBf16(ieee::Mul(ToFloat(out[i]), op.scale));
    }
  });
}

}  // namespace isobit
