#ifndef ISOBIT_KERNELS_NUMERICS_ROW_SUM_H_
#define ISOBIT_KERNELS_NUMERICS_ROW_SUM_H_

// Sums of a row in fp32, and RMSNorm (contract 3).
//
// 128 virtual lanes hold partial sums: element i belongs to lane (i / 8) % 128, a lane takes its
// elements in ascending i, and the lanes are folded by halves. A warp (4 lanes a thread), a block,
// or a file of SIMD registers can play the lanes; which one can't be seen in the bits.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit {

struct RowSum {
  static constexpr int kLanes = 128;
  static constexpr int kRun = 8;  // neighbours that share a lane: 16 bytes of bf16

  float lane[kLanes] = {};

  ISOBIT_HOST_DEVICE static constexpr int LaneOf(int64_t i) {
    return static_cast<int>((i / kRun) % kLanes);
  }

  // Elements must come in ascending i within each lane.
  ISOBIT_HOST_DEVICE void Add(int64_t i, float x) {
    lane[LaneOf(i)] = ieee::Add(lane[LaneOf(i)], x);
  }
  ISOBIT_HOST_DEVICE void AddSquare(int64_t i, float x) {
    lane[LaneOf(i)] = ieee::Fma(x, x, lane[LaneOf(i)]);
  }

  // Folds the lanes; call once, last.
  ISOBIT_HOST_DEVICE float Total() {
    for (int width = kLanes / 2; width >= 1; width /= 2) {
      for (int l = 0; l < width; ++l) lane[l] = ieee::Add(lane[l], lane[l + width]);
    }
    return lane[0];
  }
};

ISOBIT_HOST_DEVICE inline float SumOfSquares(const Bf16* x, int64_t n) {
  RowSum sum;
  for (int64_t i = 0; i < n; ++i) sum.AddSquare(i, ToFloat(x[i]));
  return sum.Total();
}

ISOBIT_HOST_DEVICE inline float SumFloat(const float* x, int64_t n) {
  RowSum sum;
  for (int64_t i = 0; i < n; ++i) sum.Add(i, x[i]);
  return sum.Total();
}

// 1 / sqrt(sum_of_squares / n + eps), four IEEE operations. REQUIRES: 0 < n <= 2^24, so that n is
// exact in fp32.
ISOBIT_HOST_DEVICE inline float RmsScale(float sum_of_squares, int64_t n, float eps) {
  const float mean = ieee::Div(sum_of_squares, static_cast<float>(n));
  return ieee::Div(1.0f, ieee::Sqrt(ieee::Add(mean, eps)));
}

// The two roundings that the reference implementations of these models make.
ISOBIT_HOST_DEVICE inline Bf16 RmsNormElement(Bf16 x, float scale, Bf16 weight) {
  const Bf16 normalised = RoundToBf16(ieee::Mul(ToFloat(x), scale));
  return RoundToBf16(ieee::Mul(ToFloat(normalised), ToFloat(weight)));
}

// out[i] = RMSNorm of x. `out` may be `x`.
ISOBIT_HOST_DEVICE inline void RmsNormRow(const Bf16* x, const Bf16* weight, int64_t n, float eps,
                                          Bf16* out) {
  const float scale = RmsScale(SumOfSquares(x, n), n, eps);
  for (int64_t i = 0; i < n; ++i) out[i] = RmsNormElement(x[i], scale, weight[i]);
}

// The norm with one rounding: weights in fp32, and a residual added before it if there is one.
ISOBIT_HOST_DEVICE inline Bf16 WideNormElement(Bf16 x, float scale, float weight) {
  return RoundToBf16(ieee::Mul(ieee::Mul(ToFloat(x), scale), weight));
}
ISOBIT_HOST_DEVICE inline Bf16 WideNormElement(Bf16 x, float scale, float weight, Bf16 residual) {
  return RoundToBf16(ieee::Add(ieee::Mul(ieee::Mul(ToFloat(x), scale), weight), ToFloat(residual)));
}

// `residual` may be null. `out` may be `x` or `residual`.
ISOBIT_HOST_DEVICE inline void WideNormRow(const Bf16* x, const float* weight, int64_t n, float eps,
                                           const Bf16* residual, Bf16* out) {
  const float scale = RmsScale(SumOfSquares(x, n), n, eps);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = residual == nullptr ? WideNormElement(x[i], scale, weight[i])
                                 : WideNormElement(x[i], scale, weight[i], residual[i]);
  }
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_ROW_SUM_H_
