#ifndef ISOBIT_KERNELS_CUDA_PACKED_LAYOUT_H_
#define ISOBIT_KERNELS_CUDA_PACKED_LAYOUT_H_

// The layout of weights on the GPU: one copy that every GEMM kernel, decode and prefill, and the
// embedding read.
//
//     [two panels][k box of 64][panel of the two][row in the panel][64], bf16, zeros where the
//     matrix has no element
//
// A panel is 16 weight rows with all their k. One box of a panel is a contiguous piece of 2 KB,
// already in the order that wgmma reads from shared memory (128-byte rows, 16-byte chunk c of row r
// at chunk c ^ (r mod 8)), so plain bulk copies fetch it and any run of panels makes a tile. Two
// panels, an even one and the next, lie box by box beside each other: a copy of 4 KB fetches a box
// of both, half as many copies, and memory reads longer pieces. Down k they are one contiguous
// stream. Boxes come in pairs: k is padded to a multiple of 128.
//
// Rows are permuted so that one thread's accumulators are neighbouring outputs. With q = lane mod 4
// a thread holds columns 8j + 2q and 8j + 2q + 1 of the product. Plain matrices put output
// 4q + 2j + e of a panel at row 8j + 2q + e (j, e = 0, 1). Gate-up matrices put gate (e = 0) and up
// (e = 1) of output 4q + j at row 8j + 2q + e (j = 0..3) of two panels taken together. Either way
// a thread stores four neighbouring outputs.
//
// Matrices whose rows are heads (HeadRows) have runs of 8 dimensions in the two halves of a panel,
// 8c + i of the head at row i and 8c' + i at row 8 + i: two that are rotated with each other where
// the head is rotated, neighbours elsewhere. So a thread has both elements of a rotated pair.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"

namespace isobit::cuda {

inline constexpr int kBoxCols = 64;                // k in a box
inline constexpr int kBoxRowBytes = 2 * kBoxCols;  // 128
inline constexpr int kPanelRows = 16;
inline constexpr int kPanelBoxBytes = kPanelRows * kBoxRowBytes;  // 2048
inline constexpr int kDoubleBoxBytes = 2 * kPanelBoxBytes;        // of two panels
inline constexpr int kGroupOutputs = 16;
inline constexpr int kRunDims = 8;

// Where a weight row lies.
struct PanelRow {
  int64_t panel;
  int row;  // in the panel
};

// The rows of a fused projection as heads (RopeKvWrite of kernels/ops.h).
struct HeadRows {
  int head_dim = 0;       // a multiple of 16; 0: rows are not heads
  int rotary_dim = 0;     // a multiple of 16
  int rotated_heads = 0;  // the first ones: queries and keys

  // The two runs of 8 dimensions that a panel holds.
  struct PanelRuns {
    int first, second;  // runs of the head
    bool is_rotated;    // with each other
  };
  ISOBIT_HOST_DEVICE constexpr int HeadPanels() const { return head_dim / kPanelRows; }
  ISOBIT_HOST_DEVICE constexpr PanelRuns RunsOf(int head, int panel_of_head) const {
    const int rotated_panels = rotary_dim / kPanelRows;
    if (head < rotated_heads && panel_of_head < rotated_panels) {
      return {panel_of_head, panel_of_head + rotated_panels, true};
    }
    return {2 * panel_of_head, 2 * panel_of_head + 1, false};
  }
  ISOBIT_HOST_DEVICE constexpr PanelRow Locate(int64_t row) const {
    const int64_t head = row / head_dim;
    const int run = static_cast<int>(row % head_dim) / kRunDims;
    const int in_run = static_cast<int>(row % kRunDims);
    const int rotated_runs = head < rotated_heads ? rotary_dim / kRunDims : 0;
    const bool is_rotated = run < rotated_runs;
    const int panel = is_rotated ? run % (rotated_runs / 2) : run / 2;
    const int half = is_rotated ? run / (rotated_runs / 2) : run % 2;
    return {head * HeadPanels() + panel, half * kRunDims + in_run};
  }
};

struct PackedLayout {
  int64_t rows = 0;  // n, of the logical matrix
  int64_t cols = 0;  // k
  bool gate_up = false;
  HeadRows heads = {};  // not with gate_up

  // A group of panels gives 16 outputs and is never cut: 1 panel, or 2 of a gate-up matrix.
  ISOBIT_HOST_DEVICE constexpr int GroupPanels() const { return gate_up ? 2 : 1; }
  ISOBIT_HOST_DEVICE constexpr int GroupRows() const { return GroupPanels() * kPanelRows; }
  ISOBIT_HOST_DEVICE constexpr int64_t Groups() const {
    return (rows + GroupRows() - 1) / GroupRows();
  }
  ISOBIT_HOST_DEVICE constexpr int64_t Panels() const { return Groups() * GroupPanels(); }
  // Always even.
  ISOBIT_HOST_DEVICE constexpr int64_t KBoxes() const {
    return (cols + 2 * kBoxCols - 1) / (2 * kBoxCols) * 2;
  }
  ISOBIT_HOST_DEVICE constexpr int64_t Bytes() const {
    return (Panels() + 1) / 2 * KBoxes() * kDoubleBoxBytes;
  }

  // Logical row in [0, rows). In a gate-up matrix the gate rows come first, then the up rows.
  ISOBIT_HOST_DEVICE constexpr PanelRow Locate(int64_t row) const {
    if (heads.head_dim > 0) return heads.Locate(row);
    if (!gate_up) {
      const int i = static_cast<int>(row % kGroupOutputs);
      return {row / kGroupOutputs, 8 * (i / 2 % 2) + 2 * (i / 4) + i % 2};
    }
    const bool up = row >= rows / 2;
    const int64_t output = up ? row - rows / 2 : row;
    const int i = static_cast<int>(output % kGroupOutputs);
    const int group_row = 8 * (i % 4) + 2 * (i / 4) + (up ? 1 : 0);
    return {output / kGroupOutputs * 2 + group_row / kPanelRows, group_row % kPanelRows};
  }

  // Byte offset of the 16-byte chunk that holds columns [8 chunk, 8 chunk + 8) of a logical row.
  ISOBIT_HOST_DEVICE constexpr int64_t ChunkOffset(int64_t row, int64_t chunk) const {
    const PanelRow at = Locate(row);
    const int64_t double_box = at.panel / 2 * KBoxes() + chunk / 8;
    const int64_t swizzled = (chunk % 8) ^ (at.row % 8);
    return double_box * kDoubleBoxBytes + at.panel % 2 * kPanelBoxBytes +
           int64_t{at.row} * kBoxRowBytes + 16 * swizzled;
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_PACKED_LAYOUT_H_
