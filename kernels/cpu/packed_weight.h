#ifndef ISOBIT_KERNELS_CPU_PACKED_WEIGHT_H_
#define ISOBIT_KERNELS_CPU_PACKED_WEIGHT_H_

// Weights of the CPU backend: packed once at load, read by GEMM and, for tied embeddings, by rows.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/dot16_limits.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight_arena.h"
#include "kernels/numerics/bf16.h"
#include "kernels/ops.h"

namespace isobit {

// Outputs (rows) of a panel.
inline constexpr int kPanelLanes = 32;

// Panels of 32 outputs, each [padded_cols][32] with lane l at element 2 * (l % 16) + l / 16. So a
// vector of 16-bit elements splits with one shift and one mask into two vectors of fp32, of lanes
// below 16 and of lanes from 16 on, both in order, whatever the length of a vector is. K is padded
// to a multiple of 16 with zeros, which are neutral in dot16. Missing outputs of the last panel are
// ones, whose results nobody reads and which never need the exact path.
//
// Of kConcatenated, panel p holds rows [32 p, 32 p + 32). Of kGateUp, its lanes below 16 are gate
// rows [16 p, 16 p + 16) and the others the up rows of the same numbers.
//
// Thread safety: immutable after Load.
class PackedWeight final : public Weight {
 public:
  // Reads and packs all parts on `pool`, into memory of `arena`. InvalidArgument or
  // ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> Load(std::span<const MatrixSource> parts,
                                                            WeightLayout layout, ThreadPool& pool,
                                                            WeightArena& arena);

  int64_t panels() const { return static_cast<int64_t>(exponents_.size()); }
  int64_t padded_cols() const { return padded_cols_; }
  const Bf16* Panel(int64_t panel) const {
    return static_cast<Bf16*>(memory_.data) + panel * padded_cols_ * kPanelLanes;
  }
  const ExponentRange& Exponents(int64_t panel) const {
    return exponents_[static_cast<size_t>(panel)];
  }

  // Element of lane l in each group of 32.
  static constexpr int LaneElement(int lane) { return 2 * (lane % 16) + lane / 16; }

  // Row `row` of a weight of layout kConcatenated, cols() elements.
  void CopyRow(int64_t row, Bf16* out) const;

 private:
  PackedWeight(int64_t rows, int64_t cols, WeightLayout layout, int64_t panels,
               WeightArena::Memory memory);

  struct Place {
    int64_t panel;
    int lane;
  };
  // Where a row of the whole matrix (parts laid below each other) goes, and back: -1 for a lane
  // that is padding.
  Place PlaceOf(int64_t row) const;
  int64_t RowOf(int64_t panel, int lane) const;
  Bf16* MutablePanel(int64_t panel) {
    return static_cast<Bf16*>(memory_.data) + panel * padded_cols_ * kPanelLanes;
  }
  void PackBlock(int64_t first_row, int64_t rows, const Bf16* block);
  // Fills the padding of a panel and notes its exponents.
  void FinishPanel(int64_t panel);

  int64_t padded_cols_;
  std::vector<ExponentRange> exponents_;  // [panels]
  WeightArena::Memory memory_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_PACKED_WEIGHT_H_
