// The embedding of the CUDA backend against the reference.

#include <algorithm>
#include <vector>

#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {
namespace {

using CudaEmbedTest = TwinBackends;

TEST_F(CudaEmbedTest, EveryRowOfTablesOfManyShapes) {
  for (int64_t vocab : {1, 15, 16, 17, 271, 1000}) {
    for (int64_t width : {8, 64, 72, 576, 1024}) {
      RandomValues random(static_cast<uint64_t>(vocab * 10007 + width));
      std::vector<Bf16> table;
      for (int64_t i = 0; i < vocab * width; ++i) {
        table.push_back({static_cast<uint16_t>(random.Bits())});  // NaN too: bits are copied
      }
      MatrixSource source = {vocab, width, [&](int64_t begin, int64_t end, Bf16* out) {
                               std::copy(table.begin() + begin * width, table.begin() + end * width,
                                         out);
                             }};
      const auto cuda_table = cuda().LoadWeight({&source, 1}, WeightLayout::kConcatenated).value();
      const auto reference_table =
          reference().LoadWeight({&source, 1}, WeightLayout::kConcatenated).value();
      std::vector<int32_t> ids;
      for (int64_t i = vocab - 1; i >= 0; --i) ids.push_back(static_cast<int32_t>(i));
      ids.push_back(0);
      const auto token_ids = Both(ids);
      const auto rows = static_cast<int64_t>(ids.size());
      for (const float scale : {1.0f, 12.0f, 45.25f, 1e-6f}) {
        const auto out = Poisoned<Bf16>(rows * width);
        RunBoth([&](bool c) {
          return Embed{.rows = rows,
                       .table = c ? cuda_table.get() : reference_table.get(),
                       .token_ids = Side(token_ids, c),
                       .scale = scale,
                       .out = Side(out, c)};
        });
        ExpectEqualBits(out, width,
                        std::to_string(vocab) + " x " + std::to_string(width) + ", times " +
                            std::to_string(scale));
      }
    }
  }
}

}  // namespace
}  // namespace isobit
