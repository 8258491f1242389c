#include "kernels/cpu/embed.h"

#include <cassert>
#include <cstdint>

#include "kernels/cpu/packed_weight.h"

namespace isobit {

void RunEmbed(CpuContext& context, const Embed& op) {
  const auto& table = static_cast<const PackedWeight&>(*op.table);
  ForRows(context, op.rows, table.cols(), [&](int64_t r) {
    assert(op.token_ids[r] >= 0 && op.token_ids[r] < table.rows());
    table.CopyRow(op.token_ids[r], op.out + r * table.cols());
  });
}

}  // namespace isobit
