#ifndef ISOBIT_KERNELS_CPU_GEMM_KERNEL_H_
#define ISOBIT_KERNELS_CPU_GEMM_KERNEL_H_

// The inner loops of GEMM. Two of them: one row against a panel, bound by reading the weights, and
// several rows against two panels, which unpacks weights once for all rows. Both run in
// ScopedRoundTowardZero.

#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/numerics/bf16.h"
#include "kernels/numerics/dot16.h"

namespace isobit {

// Rows of activations that one tile takes at most.
inline constexpr int kTileRows = 32;
// Outputs of a tile: two panels.
inline constexpr int kTileLanes = 2 * kPanelLanes;

// 16 activations of one row as the inner loops read them.
struct alignas(64) ActivationStep {
  float value[kDotTerms];
  // For one row: the exponent field, twice, each at bit 7 of a 16-bit lane. For a tile:
  // kActivationTop less the exponent field in four bytes, 255 for a zero.
  uint32_t exponent[kDotTerms];
};

enum class ActivationForm { kRow, kTile };

// What a kernel must know of a row to take its fast path.
struct RowInfo {
  int max_exponent = 0;   // largest field; kNonFiniteExponent if there is an infinity or a NaN
  bool may_wrap = false;  // kTile: the sums of a step could exceed an int32
};

struct GemmTile {
  const Bf16* panel[2];  // each [16 * steps][32]; may be the same one twice
  uint32_t zero_lanes[2];
  int64_t steps;
  int rows;                           // at most kTileRows
  const ActivationStep* activations;  // [rows][steps], kTile
  const uint8_t* live;                // [rows][steps]
  int min_safe_exponent;
};

struct GemmKernels {
  // Splits a row of `cols` activations into steps, the last one padded with zeros. live[s]: 0 if
  // all of step s is zero, so that it changes nothing.
  RowInfo (*prepare_row)(const Bf16* x, int64_t cols, ActivationForm form, ActivationStep* steps,
                         uint8_t* live);
  // One row against one panel: out[32]. Returns the lanes that must be computed again.
  uint32_t (*row)(const Bf16* panel, uint32_t zero_lanes, int64_t steps,
                  const ActivationStep* activations, const uint8_t* live, int min_safe_exponent,
                  float* out);
  // Several rows against two panels: out[rows][64]. False if any of it must be computed again.
  bool (*tile)(const GemmTile& tile, float* out);
};

// For the instruction set of a context.
GemmKernels SelectGemmKernels(const CpuContext& context);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_GEMM_KERNEL_H_
