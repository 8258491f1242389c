#ifndef ISOBIT_KERNELS_CUDA_KV_LAYOUT_H_
#define ISOBIT_KERNELS_CUDA_KV_LAYOUT_H_

// The layout of keys and values on the GPU.
//
//     [layer][page][kv head]{keys, values}, each [group of 8 tokens][box][token][dimension]
//
// A row of head_dim elements is cut into boxes of 64 dimensions, then one of 32 or 16 where
// head_dim is no multiple of 64. Eight rows of a box, an atom, have their 16-byte chunks permuted
// as the 128-, 64- or 32-byte swizzle of the tensor core wants them in shared memory, which also
// spares ldmatrix bank conflicts. All atoms of eight tokens lie together, so any run of tokens of a
// page that starts and ends at a multiple of 8 is one contiguous piece, in global memory as in a
// tile in shared memory: kernels make tiles of any height from pages of any size with few, large
// copies.

#include <cstdint>

#include "kernels/numerics/bf16.h"
#include "kernels/numerics/host_device.h"
#include "kernels/ops.h"

namespace isobit::cuda {

inline constexpr int kKvBoxDims = 64;
inline constexpr int kKvChunkDims = 8;  // 16 bytes
inline constexpr int kKvAtomTokens = 8;
inline constexpr int kKvGroupTokens = 16;  // the unit of pages, and of one step of dot16

// So that positions up to 2^22 can be divided by it (divisor.h).
inline constexpr int kMaxPageTokens = 1024;

// What the kernels are compiled for.
inline constexpr int kHeadDims[] = {16, 32, 64, 80, 96, 128, 256};

constexpr bool IsSupportedHeadDim(int head_dim) {
  for (int supported : kHeadDims) {
    if (head_dim == supported) return true;
  }
  return false;
}

// Bytes from one group of 8 tokens to the next, and of a whole box's atom.
ISOBIT_HOST_DEVICE constexpr int KvAtomsBytes(int head_dim) { return 2 * kKvAtomTokens * head_dim; }
inline constexpr int kKvAtomBytes = 2 * kKvAtomTokens * kKvBoxDims;

// Byte offset, from the beginning of a tile, of the chunk that holds dimensions [8 chunk, 8 chunk +
// 8) of a row.
ISOBIT_HOST_DEVICE constexpr int KvChunkOffset(int head_dim, int row, int chunk) {
  const int box = chunk / 8;
  const int dims_left = head_dim - box * kKvBoxDims;
  const int row_bytes = 2 * (dims_left < kKvBoxDims ? dims_left : kKvBoxDims);
  const int in_atom = row % kKvAtomTokens;
  const int permuted = chunk % 8 ^ (row_bytes == 128  ? in_atom
                                    : row_bytes == 64 ? in_atom / 2
                                                      : in_atom / 4);
  return row / kKvAtomTokens * KvAtomsBytes(head_dim) + box * kKvAtomBytes + in_atom * row_bytes +
         16 * permuted;
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
