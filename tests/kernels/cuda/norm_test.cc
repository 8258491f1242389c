// RMSNorm of the CUDA backend against the reference.

#include <vector>

#include "tests/kernels/cuda/twin_backends.h"

namespace isobit {
namespace {

class CudaNormTest : public TwinBackends {
 protected:
  void Check(int64_t rows, int64_t width, const std::vector<Bf16>& x,
             const std::vector<int32_t>& row_index) {
    RandomValues random(static_cast<uint64_t>(rows * 100003 + width));
    const auto x_both = Both(x);
    const auto weight = Both(random.NormalRow(width));
    const auto index = Both(row_index);
    const auto out = Poisoned<Bf16>(rows * width);
    RunBoth([&](bool c) {
      return RmsNorm{.rows = rows,
                     .width = width,
                     .eps = 1e-5f,
                     .x = Side(x_both, c),
                     .row_index = row_index.empty() ? nullptr : Side(index, c),
                     .weight = Side(weight, c),
                     .out = Side(out, c)};
    });
    ExpectEqualBits(out, width, std::to_string(rows) + " rows of " + std::to_string(width));
  }
};

TEST_F(CudaNormTest, RowsAndWidths) {
  RandomValues random(1);
  for (int64_t rows : {1, 2, 31, 32, 33, 65}) {
    for (int64_t width : {8, 64, 576, 1016, 1024, 1032, 2048, 4096, 8192}) {
      Check(rows, width, random.NormalRow(rows * width), {});
    }
  }
}

TEST_F(CudaNormTest, RowsTooWideForRegisters) {
  RandomValues random(2);
  for (int64_t width : {8200, 16384}) Check(5, width, random.NormalRow(5 * width), {});
}

TEST_F(CudaNormTest, PickedRows) {
  RandomValues random(3);
  Check(4, 576, random.NormalRow(9 * 576), {8, 0, 3, 3});
}

// The smallest and largest numbers, and rows that are not finite.
TEST_F(CudaNormTest, EveryMagnitude) {
  RandomValues random(4);
  constexpr int64_t kRows = 12, kWidth = 1024;
  std::vector<Bf16> x;
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    const int64_t row = i / kWidth;
    if (row < 4)
      x.push_back(random.FiniteBf16());
    else if (row < 8)
      x.push_back({static_cast<uint16_t>(random.Bits() & 0x80ff)});  // tiny
    else
      x.push_back(random.NormalBf16());
  }
  x[8 * kWidth + 5] = {0x7fc1};   // NaN
  x[9 * kWidth + 77] = {0xff80};  // -infinity
  for (int64_t i = 0; i < kWidth; ++i) x[static_cast<size_t>(10 * kWidth + i)] = {0x8000};
  Check(kRows, kWidth, x, {});
}

}  // namespace
}  // namespace isobit
