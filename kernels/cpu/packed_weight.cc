#include "kernels/cpu/packed_weight.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/numerics/dot16.h"
#include "kernels/shapes.h"

namespace isobit {
namespace {

constexpr int kHalfPanel = kPanelLanes / 2;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t PanelCount(int64_t rows, WeightLayout layout) {
  return layout == WeightLayout::kGateUp ? CeilDiv(rows / 2, kHalfPanel)
                                         : CeilDiv(rows, kPanelLanes);
}

// One block of a source: rows [begin, end) of `part`, of which row 0 is row `first` of the matrix.
struct Block {
  const MatrixSource* part;
  int64_t begin;
  int64_t end;
  int64_t first;
};

std::vector<Block> BlocksOf(std::span<const MatrixSource> parts) {
  std::vector<Block> blocks;
  int64_t first = 0;
  for (const MatrixSource& part : parts) {
    for (int64_t begin = 0; begin < part.rows; begin += kWeightBlockRows) {
      blocks.push_back({&part, begin, std::min(begin + kWeightBlockRows, part.rows), first});
    }
    first += part.rows;
  }
  return blocks;
}

}  // namespace

PackedWeight::PackedWeight(int64_t rows, int64_t cols, WeightLayout layout, int64_t panels,
                           WeightArena::Memory memory)
    : Weight(rows, cols, layout),
      padded_cols_(CeilDiv(cols, kDotTerms) * kDotTerms),
      exponents_(static_cast<size_t>(panels)),
      memory_(std::move(memory)) {}

absl::StatusOr<std::unique_ptr<PackedWeight>> PackedWeight::Load(
    std::span<const MatrixSource> parts, WeightLayout layout, ThreadPool& pool,
    WeightArena& arena) {
  const absl::StatusOr<MatrixShape> shape = CheckMatrixParts(parts, layout);
  if (!shape.ok()) return shape.status();
  const int64_t panels = PanelCount(shape->rows, layout);
  const int64_t padded_cols = CeilDiv(shape->cols, kDotTerms) * kDotTerms;
  size_t bytes;
  if (__builtin_mul_overflow(panels, padded_cols, &bytes) ||
      __builtin_mul_overflow(bytes, kPanelLanes * sizeof(Bf16), &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("a weight of ", shape->rows, " x ", shape->cols,
                                                   " is too large to be packed"));
  }
  absl::StatusOr<WeightArena::Memory> memory = arena.Allocate(bytes);
  if (!memory.ok()) return memory.status();
  std::unique_ptr<PackedWeight> weight(
      new PackedWeight(shape->rows, shape->cols, layout, panels, *std::move(memory)));

  const std::vector<Block> blocks = BlocksOf(parts);
  std::vector<std::vector<Bf16>> staging(static_cast<size_t>(pool.threads()));
  for (std::vector<Bf16>& s : staging) {
    s.resize(static_cast<size_t>(kWeightBlockRows * shape->cols));
  }
  pool.ParallelFor(static_cast<int64_t>(blocks.size()), [&](int64_t task, int worker) {
    const Block& block = blocks[static_cast<size_t>(task)];
    Bf16* rows = staging[static_cast<size_t>(worker)].data();
    block.part->read(block.begin, block.end, rows);
    weight->PackBlock(block.first + block.begin, block.end - block.begin, rows);
  });
  pool.ParallelFor(panels, [&](int64_t panel, int) { weight->FinishPanel(panel); });
  return weight;
}

PackedWeight::Place PackedWeight::PlaceOf(int64_t row) const {
  if (layout() == WeightLayout::kConcatenated) {
    return {row / kPanelLanes, static_cast<int>(row % kPanelLanes)};
  }
  const int64_t part_rows = rows() / 2;
  const bool up = row >= part_rows;
  const int64_t row_of_part = up ? row - part_rows : row;
  return {row_of_part / kHalfPanel,
          static_cast<int>(row_of_part % kHalfPanel) + (up ? kHalfPanel : 0)};
}

int64_t PackedWeight::RowOf(int64_t panel, int lane) const {
  if (layout() == WeightLayout::kConcatenated) {
    const int64_t row = panel * kPanelLanes + lane;
    return row < rows() ? row : -1;
  }
  const int64_t part_rows = rows() / 2;
  const int64_t row_of_part = panel * kHalfPanel + lane % kHalfPanel;
  if (row_of_part >= part_rows) return -1;
  return lane < kHalfPanel ? row_of_part : part_rows + row_of_part;
}

void PackedWeight::PackBlock(int64_t first_row, int64_t rows, const Bf16* block) {
  assert(rows <= kWeightBlockRows);
  std::array<Bf16*, kWeightBlockRows> column;
  for (int64_t r = 0; r < rows; ++r) {
    const Place place = PlaceOf(first_row + r);
    column[static_cast<size_t>(r)] = MutablePanel(place.panel) + LaneElement(place.lane);
  }
  const int64_t k_end = cols();
  for (int64_t k = 0; k < k_end; ++k) {
    for (int64_t r = 0; r < rows; ++r) {
      column[static_cast<size_t>(r)][k * kPanelLanes] = block[r * k_end + k];
    }
  }
}

void PackedWeight::FinishPanel(int64_t panel) {
  Bf16* elements = MutablePanel(panel);
  std::fill(elements + cols() * kPanelLanes, elements + padded_cols_ * kPanelLanes, Bf16{0});
  for (int lane = 0; lane < kPanelLanes; ++lane) {
    if (RowOf(panel, lane) >= 0) continue;
    for (int64_t k = 0; k < cols(); ++k) elements[k * kPanelLanes + LaneElement(lane)] = kOneBf16;
  }

  // Less 1, zeros are the largest of all, so that they don't count as the smallest.
  uint16_t smallest_less_1 = 0xffff;
  uint16_t largest = 0;
  for (int64_t i = 0; i < cols() * kPanelLanes; ++i) {
    const uint16_t magnitude = elements[i].bits & 0x7fff;
    largest = std::max(largest, magnitude);
    smallest_less_1 = std::min(smallest_less_1, static_cast<uint16_t>(magnitude - 1));
  }
  if (largest == 0) return;
  ExponentRange& range = exponents_[static_cast<size_t>(panel)];
  range.min = std::max(1, (smallest_less_1 + 1) >> 7);
  range.max = std::max(1, largest >> 7);
}

void PackedWeight::CopyRow(int64_t row, Bf16* out) const {
  assert(layout() == WeightLayout::kConcatenated && row >= 0 && row < rows());
  const Place place = PlaceOf(row);
  const Bf16* column = Panel(place.panel) + LaneElement(place.lane);
  for (int64_t k = 0; k < cols(); ++k) out[k] = column[k * kPanelLanes];
}

}  // namespace isobit
