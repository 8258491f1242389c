#ifndef ISOBIT_KERNELS_CUDA_KV_LAYOUT_H_
#define ISOBIT_KERNELS_CUDA_KV_LAYOUT_H_

// The layout of keys and values on the GPU.
//
//     [layer][page][kv head]{keys, values}, each a tile of page_tokens rows
//
// A tile holds rows of head_dim elements cut into boxes: boxes of 64 dimensions, then one of 32 or
// 16 where head_dim is no multiple of 64. A box is [row][dimensions of the box], its 16-byte chunks
// permuted as the 128-, 64- or 32-byte swizzle of the tensor core wants them in shared memory,
// which also spares ldmatrix bank conflicts. The permutation repeats every 8 rows. So 16 rows of
// one box are one contiguous piece that a bulk copy brings to its place in a tile of any height,
// and kernels can make tiles from pages of any size.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops.h"

namespace isobit::cuda {

inline constexpr int kKvBoxDims = 64;
inline constexpr int kKvChunkDims = 8;     // 16 bytes
inline constexpr int kKvGroupTokens = 16;  // pages and tiles are whole groups of rows

// What the kernels are compiled for.
inline constexpr int kHeadDims[] = {16, 32, 64, 80, 96, 128, 256};

constexpr bool IsSupportedHeadDim(int head_dim) {
  for (int supported : kHeadDims) {
    if (head_dim == supported) return true;
  }
  return false;
}

ISOBIT_HOST_DEVICE constexpr int KvBoxes(int head_dim) {
  return (head_dim + kKvBoxDims - 1) / kKvBoxDims;
}
// Bytes of a row in a box.
ISOBIT_HOST_DEVICE constexpr int KvBoxRowBytes(int head_dim, int box) {
  const int left = head_dim - box * kKvBoxDims;
  return 2 * (left < kKvBoxDims ? left : kKvBoxDims);
}
// Where a box begins in a tile of `rows` rows. All boxes before it are whole.
ISOBIT_HOST_DEVICE constexpr int KvBoxOffset(int rows, int box) {
  return rows * box * (2 * kKvBoxDims);
}

// Byte offset, in a tile of `rows` rows, of the chunk that holds dimensions [8 chunk, 8 chunk + 8).
ISOBIT_HOST_DEVICE constexpr int KvChunkOffset(int head_dim, int rows, int row, int chunk) {
  const int box = chunk / 8;
  const int row_bytes = KvBoxRowBytes(head_dim, box);
  const int permuted = chunk % 8 ^ (row_bytes == 128  ? row % 8
                                    : row_bytes == 64 ? row / 2 % 4
                                                      : row / 4 % 2);
  return KvBoxOffset(rows, box) + row * row_bytes + 16 * permuted;
}

struct KvLayout {
  int kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;
  int64_t pages = 0;

  explicit KvLayout(const KvCacheShape& shape)
      : kv_heads(shape.kv_heads),
        head_dim(shape.head_dim),
        page_tokens(shape.page_tokens),
        pages(shape.pages) {}

  ISOBIT_HOST_DEVICE constexpr int64_t TileBytes() const {
    return int64_t{2} * page_tokens * head_dim;
  }
  ISOBIT_HOST_DEVICE constexpr int64_t PageBytes() const { return 2 * kv_heads * TileBytes(); }
  ISOBIT_HOST_DEVICE constexpr int64_t LayerBytes() const { return pages * PageBytes(); }
  // From the beginning of a layer.
  ISOBIT_HOST_DEVICE constexpr int64_t KeysOffset(int64_t page, int kv_head) const {
    return page * PageBytes() + 2 * kv_head * TileBytes();
  }
  ISOBIT_HOST_DEVICE constexpr int64_t ValuesOffset(int64_t page, int kv_head) const {
    return KeysOffset(page, kv_head) + TileBytes();
  }
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_KV_LAYOUT_H_
