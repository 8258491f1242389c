#ifndef ISOBIT_KERNELS_CPU_WEIGHT_ARENA_H_
#define ISOBIT_KERNELS_CPU_WEIGHT_ARENA_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit {

// Memory for weights, cut from blocks of many megabytes that lie on huge pages. Reading all weights
// once a token misses nearly every entry of the TLB: with small pages that costs a quarter of the
// bandwidth.
//
// Thread safety: none.
class WeightArena {
 public:
  // Uninitialised memory, aligned to 64 bytes. Its block lives as long as anybody holds it.
  struct Memory {
    std::shared_ptr<Buffer> block;
    void* data = nullptr;
  };

  // ResourceExhausted if the memory is not there.
  absl::StatusOr<Memory> Allocate(size_t bytes);

 private:
  std::shared_ptr<Buffer> block_;
  size_t used_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_WEIGHT_ARENA_H_
