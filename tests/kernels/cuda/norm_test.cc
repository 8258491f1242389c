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

// ---- Norms that round once, and of parts of a row

enum class Residual { kNone, kOther, kIsOut };

class CudaWideNormTest : public TwinBackends {
 protected:
  struct Shape {
    int64_t rows, width, groups = 1, stride = 0;
    bool wide = true;
    Residual residual = Residual::kNone;
    bool in_place = false;
  };

  void Check(const Shape& s, const std::vector<Bf16>& values,
             const std::vector<int32_t>& row_index = {}) {
    const int64_t stride = s.stride != 0 ? s.stride : s.groups * s.width;
    RandomValues random(static_cast<uint64_t>(s.rows * 100003 + s.width));
    std::vector<float> wide_weight;
    for (int64_t i = 0; i < s.width; ++i) {
      wide_weight.push_back(1.0f + 0.37f * static_cast<float>(random.Normal()));
    }
    const auto x = Both(values);
    const auto weight = Both(random.NormalRow(s.width)),
               other = Both(random.NormalRow(s.rows * stride));
    const auto fp32_weight = Both(wide_weight);
    const auto index = Both(row_index);
    const auto separate = s.residual == Residual::kIsOut ? Both(random.NormalRow(s.rows * stride))
                                                         : Poisoned<Bf16>(s.rows * stride);
    const auto& out = s.in_place ? x : separate;
    RunBoth([&](bool c) {
      RmsNorm op{.rows = s.rows, .width = s.width, .eps = 1e-6f, .x = Side(x, c)};
      op.row_index = row_index.empty() ? nullptr : Side(index, c);
      op.out = Side(out, c);
      op.groups = s.groups;
      op.stride = s.stride;
      if (s.wide) {
        op.wide_weight = Side(fp32_weight, c);
      } else {
        op.weight = Side(weight, c);
      }
      if (s.residual == Residual::kOther) op.residual = Side(other, c);
      if (s.residual == Residual::kIsOut) op.residual = Side(out, c);
      return op;
    });
    ExpectEqualBits(out, stride,
                    std::to_string(s.rows) + " rows of " + std::to_string(s.groups) + " x " +
                        std::to_string(s.width) + ", residual " +
                        std::to_string(static_cast<int>(s.residual)));
  }
};

TEST_F(CudaWideNormTest, RowsWidthsAndResiduals) {
  RandomValues random(11);
  for (int64_t rows : {1, 2, 31, 33, 65}) {
    for (int64_t width : {8, 64, 248, 256, 264, 1016, 1024, 1032, 3584, 16384}) {
      for (Residual residual : {Residual::kNone, Residual::kOther, Residual::kIsOut}) {
        Check({.rows = rows, .width = width, .residual = residual}, random.NormalRow(rows * width));
      }
    }
  }
}

// Heads of a fused projection: only their part of a row is touched.
TEST_F(CudaWideNormTest, HeadsInPlace) {
  RandomValues random(12);
  for (int64_t width : {16, 32, 64, 80, 96, 128, 256, 512}) {
    for (int64_t groups : {1, 2, 3, 5, 8}) {
      const int64_t stride = (groups + 2) * width;
      for (const bool wide : {true, false}) {
        Check({.rows = 37,
               .width = width,
               .groups = groups,
               .stride = stride,
               .wide = wide,
               .in_place = true},
              random.NormalRow(37 * stride));
      }
    }
  }
  // All heads of a row together.
  Check({.rows = 9, .width = 2048, .stride = 4096, .in_place = true}, random.NormalRow(9 * 4096));
}

TEST_F(CudaWideNormTest, PickedRows) {
  RandomValues random(13);
  for (int64_t width : {64, 2304}) {
    Check({.rows = 4, .width = width}, random.NormalRow(9 * width), {8, 0, 3, 3});
  }
}

TEST_F(CudaWideNormTest, EveryMagnitude) {
  RandomValues random(14);
  for (int64_t width : {64, 1024}) {
    constexpr int64_t kRows = 12;
    std::vector<Bf16> x;
    for (int64_t i = 0; i < kRows * width; ++i) {
      const int64_t row = i / width;
      x.push_back(row < 4   ? random.FiniteBf16()
                  : row < 8 ? Bf16{static_cast<uint16_t>(random.Bits() & 0x80ff)}  // tiny
                            : random.NormalBf16());
    }
    x[static_cast<size_t>(8 * width + 5)] = {0x7fc1};  // NaN
    x[static_cast<size_t>(9 * width + 7)] = {0xff80};  // -infinity
    for (int64_t i = 0; i < width; ++i) x[static_cast<size_t>(10 * width + i)] = {0x8000};
    for (Residual residual : {Residual::kNone, Residual::kOther}) {
      Check({.rows = kRows, .width = width, .residual = residual}, x);
    }
  }
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
