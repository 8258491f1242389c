#ifndef ISOBIT_KERNELS_CPU_TILE_CHECK_H_
#define ISOBIT_KERNELS_CPU_TILE_CHECK_H_

#include "kernels/cpu/dot16_limits.h"

namespace isobit {

// Outputs of a tile: lanes that many rows are computed against at once.
inline constexpr int kTileLanes = 64;

// What a tile kernel has seen of its steps.
struct TileCheck {
  int min_exponent = kNonFiniteExponent;  // smallest that any chain aligned to
  bool wrapped = false;                   // a sum may have left the int32
  // Largest field of the weights, a zero's being 0. Bytes saturate: what is above
  // kMaxWeightExponent, infinities and NaN included, gives kMaxWeightExponent + 1.
  int max_weight_exponent = 0;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_TILE_CHECK_H_
