#ifndef ISOBIT_KERNELS_NUMERICS_GRID_EXP_H_
#define ISOBIT_KERNELS_NUMERICS_GRID_EXP_H_

// The exponential of attention (contract 4).
//
// Its arguments lie on a grid of 2^-13, and its result is the bf16 nearest to 2^x. On that grid 2^x
// is never nearer than 2^-20.53 (relative) to the border between two bf16, so this is a
// mathematical function rather than an implementation: any exponential with a smaller error gives
// the same bits once rounded. A GPU uses its ex2.approx, a CPU the table below, and Exp2 of
// scalar.h would do as well. tests/kernels/numerics/grid_exp_test.cc proves table and margin
// against MPFR.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/scalar.h"

namespace isobit {

inline constexpr int kGridBits = 13;
inline constexpr int kGridSize = 1 << kGridBits;
// 1.5 * 2^10: an fp32 in [1024, 2048) has its last bit at 2^-13.
inline constexpr float kGridOffset = 1536.0f;
// Below this the result is 0, so that no subnormal ever appears.
inline constexpr float kGridExpMin = -126.0f;

// (s * c - bucket) rounded to the grid; `bucket` is a multiple of 64 (attention.h).
ISOBIT_HOST_DEVICE inline float GridPoint(float s, float c, float bucket) {
  return ieee::Sub(ieee::Fma(s, c, ieee::Sub(kGridOffset, bucket)), kGridOffset);
}

// fraction[f] = the 7 fraction bits of bf16(2^(f / 8192)). 128 stands for a value that rounds up
// to 2: added to a biased exponent it carries into the next one, as it should.
struct GridExpTable {
  uint8_t fraction[kGridSize];
};

// Integers only, so the table is the same wherever it is computed: 2^(f/8192) with 62 fraction bits
// by repeated multiplication. Its error stays below 2^-48.
ISOBIT_HOST_DEVICE constexpr GridExpTable MakeGridExpTable() {
  constexpr uint64_t kOne = uint64_t{1} << 62;
  // 2^(1/8192) * 2^62, rounded.
  constexpr uint64_t kStep = 0x400162e807ee7e5bu;
  GridExpTable table{};
  uint64_t power = kOne;
  for (int f = 0; f < kGridSize; ++f) {
    const uint64_t half_unit = uint64_t{1} << (62 - 8);
    table.fraction[f] = static_cast<uint8_t>(((power + half_unit) >> (62 - 7)) - 128);
    const unsigned __int128 product = static_cast<unsigned __int128>(power) * kStep;
    power = static_cast<uint64_t>((product + (kOne >> 1)) >> 62);
  }
  return table;
}

#if !defined(__CUDA_ARCH__)
inline constexpr GridExpTable kGridExpTable = MakeGridExpTable();
#endif

// bf16 nearest to 2^x; 0 for x < -126, infinity for x >= 128, 0x7fff for NaN.
// REQUIRES: x is NaN, infinite, below -126, or a multiple of 2^-13.
ISOBIT_HOST_DEVICE inline Bf16 GridExp2(float x) {
  if (IsNan(x)) return kCanonicalNanBf16;
  if (x < kGridExpMin) return Bf16{0};
  if (x >= 128.0f) return Bf16{0x7f80};
#if defined(__CUDA_ARCH__)
  // Device code can't index a host table; the theorem above makes this the same function.
  return RoundToBf16(Exp2(x));
#else
  const int32_t step = static_cast<int32_t>(x * kGridSize);  // exact
  const int32_t exponent = step >> kGridBits;                // rounds down
  const int32_t fraction = kGridExpTable.fraction[step & (kGridSize - 1)];
  return Bf16{static_cast<uint16_t>(((exponent + 127) << 7) + fraction)};
#endif
}

}  // namespace isobit

#endif  // ISOBIT_KERNELS_NUMERICS_GRID_EXP_H_
