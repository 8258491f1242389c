#ifndef ISOBIT_KERNELS_CUDA_PACKED_LAYOUT_H_
#define ISOBIT_KERNELS_CUDA_PACKED_LAYOUT_H_

// The layout of weights on the GPU: one copy that every GEMM kernel, decode and prefill, and the
// embedding read.
//
//     [panel][k box of 64][row in the panel][64], bf16, zeros where the matrix has no element
//
// A panel is a few weight rows with all their k: 16 rows, or 32 where gate and up rows are
// interleaved. One box of a panel is one contiguous piece of 2 or 4 KB, already in the order that
// wgmma reads from shared memory (128-byte rows, 16-byte chunk c of row r at chunk c ^ (r mod 8)),
// so plain bulk copies fetch it and any run of panels can make a tile.
//
// Rows are permuted inside a panel so that one thread's accumulators are neighbouring outputs. With
// q = lane mod 4, a thread holds columns 8j + 2q and 8j + 2q + 1 of the product. Plain panels put
// output 4q + 2j + e at row 8j + 2q + e (j, e = 0, 1); gate-up panels put gate (e = 0) and up
// (e = 1) of output 4q + j at row 8j + 2q + e (j = 0..3). Either way a thread stores four outputs.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit::cuda {

inline constexpr int kBoxCols = 64;                // k in a box
inline constexpr int kBoxRowBytes = 2 * kBoxCols;  // 128
inline constexpr int kPlainPanelRows = 16;
inline constexpr int kGateUpPanelRows = 32;

// Where a weight row lies.
struct PanelRow {
  int64_t panel;
  int row;  // in the panel
};

struct PackedLayout {
  int64_t rows = 0;  // n, of the logical matrix
  int64_t cols = 0;  // k
  bool gate_up = false;

  ISOBIT_HOST_DEVICE constexpr int PanelRows() const {
    return gate_up ? kGateUpPanelRows : kPlainPanelRows;
  }
  ISOBIT_HOST_DEVICE constexpr int64_t Panels() const {
    return (rows + PanelRows() - 1) / PanelRows();
  }
  ISOBIT_HOST_DEVICE constexpr int64_t KBoxes() const { return (cols + kBoxCols - 1) / kBoxCols; }
  ISOBIT_HOST_DEVICE constexpr int64_t PanelBoxBytes() const {
    return int64_t{PanelRows()} * kBoxRowBytes;
  }
  ISOBIT_HOST_DEVICE constexpr int64_t Bytes() const {
    return Panels() * KBoxes() * PanelBoxBytes();
  }
  // Outputs that one panel gives.
  ISOBIT_HOST_DEVICE constexpr int PanelOutputs() const { return kPlainPanelRows; }

  // Logical row in [0, rows). In a gate-up matrix the gate rows come first, then the up rows.
  ISOBIT_HOST_DEVICE constexpr PanelRow Locate(int64_t row) const {
    if (!gate_up) {
      const int i = static_cast<int>(row % kPlainPanelRows);
      return {row / kPlainPanelRows, 8 * (i / 2 % 2) + 2 * (i / 4) + i % 2};
    }
    const bool up = row >= rows / 2;
    const int64_t output = up ? row - rows / 2 : row;
    const int i = static_cast<int>(output % kPlainPanelRows);
    return {output / kPlainPanelRows, 8 * (i % 4) + 2 * (i / 4) + (up ? 1 : 0)};
  }

  // Byte offset of the 16-byte chunk that holds columns [8 chunk, 8 chunk + 8) of a logical row.
  ISOBIT_HOST_DEVICE constexpr int64_t ChunkOffset(int64_t row, int64_t chunk) const {
    const PanelRow at = Locate(row);
    const int64_t box = at.panel * KBoxes() + chunk / 8;
    const int64_t swizzled = (chunk % 8) ^ (at.row % 8);
    return box * PanelBoxBytes() + int64_t{at.row} * kBoxRowBytes + 16 * swizzled;
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_PACKED_LAYOUT_H_
