#ifndef ISOBIT_KERNELS_CPU_GEMM_KERNEL_H_
#define ISOBIT_KERNELS_CPU_GEMM_KERNEL_H_

// The inner loops of GEMM. Two of them: one row against a panel, bound by reading the weights, and
// several rows against two panels, which unpacks weights once for all rows. Both run in
// ScopedRoundTowardZero.

#include <cstdint>

#include "kernels/cpu/activation_step.h"
#include "kernels/cpu/context.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/tile_check.h"

namespace isobit {

// Rows of a tile at most: their accumulators stay in the first level cache.
inline constexpr int kTileRows = 32;
static_assert(kTileLanes == 2 * kPanelLanes);

struct GemmTile {
  const Bf16* panel[2];  // each [16 * steps][32]; may be the same one twice
  int64_t steps;
  int rows;                           // at most kTileRows
  const ActivationStep* activations;  // [rows][steps], kTile
  const StepKind* kinds;              // [rows][steps]
};

struct GemmKernels {
  // One row, kRow, against one panel: out[32]. Returns the lanes that must be computed again
  // because they aligned below required_exponent or their sums may have wrapped.
  uint32_t (*row)(const Bf16* panel, int64_t steps, const ActivationStep* activations,
                  const StepKind* kinds, int required_exponent, float* out);
  // Several rows against two panels: out[rows][64].
  TileCheck (*tile)(const GemmTile& tile, float* out);
};

// For the instruction set of a context.
GemmKernels SelectGemmKernels(const CpuContext& context);

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_GEMM_KERNEL_H_
