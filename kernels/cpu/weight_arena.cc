#include "kernels/cpu/weight_arena.h"

#include <utility>

#include "kernels/host.h"

namespace isobit {
namespace {

// What is not used of the last block is never touched, so it costs nothing.
constexpr size_t kBlockBytes = size_t{64} << 20;
constexpr size_t kAlignment = 64;

}  // namespace

absl::StatusOr<WeightArena::Memory> WeightArena::Allocate(size_t bytes) {
  if (block_ == nullptr || bytes > block_->bytes() - used_) {
    const size_t block_bytes = bytes < kBlockBytes ? kBlockBytes : bytes;
    absl::StatusOr<std::unique_ptr<Buffer>> block = AllocateHostBuffer(block_bytes);
    // The last weights may still fit where a whole block does not.
    if (!block.ok() && bytes < block_bytes) block = AllocateHostBuffer(bytes);
    if (!block.ok()) return block.status();
    block_ = *std::move(block);
    used_ = 0;
  }
  const Memory memory = {block_, block_->As<char>() + used_};
  // At most the size of the block.
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  used_ = rounded < block_->bytes() - used_ ? used_ + rounded : block_->bytes();
  return memory;
}

}  // namespace isobit
