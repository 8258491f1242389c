#ifndef ISOBIT_KERNELS_CUDA_TRANSFERS_H_
#define ISOBIT_KERNELS_CUDA_TRANSFERS_H_

// Copies between the caller's memory and the device, in stream order, through pinned memory: the
// caller's memory may go away as ops.h allows, and a step waits for no copy.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops.h"

namespace isobit::cuda {

struct HostFree {
  void operator()(void* data) const { cudaFreeHost(data); }
};
using PinnedBytes = std::unique_ptr<uint8_t[], HostFree>;

class Transfers {
 public:
  static absl::StatusOr<std::unique_ptr<Transfers>> Create(cudaStream_t stream);
  // Waits for copies that are still under way.
  ~Transfers();

  // Has read `from` when it returns.
  cudaError_t Upload(const void* from, size_t bytes, void* to);
  // `to` holds the data after the next Finish(), or Wait() for a fence behind it.
  cudaError_t Download(const void* from, size_t bytes, void* to);
  // Waits for the stream, then delivers all downloads. After an error they are dropped.
  cudaError_t Finish();
  // As Backend's. Where two fences are ahead, the next fence or download waits for the first.
  cudaError_t PlaceFence(Fence* fence);
  cudaError_t Wait(Fence fence);

 private:
  explicit Transfers(cudaStream_t stream) : stream_(stream) {}

  // Uploads fill the segments of a ring in turn; a segment is used again when the copies from it
  // are done.
  static constexpr size_t kSegmentBytes = size_t{1} << 20;
  static constexpr int kSegments = 4;
  // Downloads before a fence use one of two areas, those behind it the other.
  static constexpr int kAreas = 2;
  static constexpr size_t kAreaBytes = size_t{4} << 20;
  // Keeps copies aligned.
  static constexpr size_t kAlignment = 256;

  struct Pending {
    const uint8_t* staged;
    size_t bytes;
    void* to;
  };
  struct Area {
    uint8_t* data = nullptr;
    size_t used = 0;
    std::vector<Pending> pending;
    uint64_t fence = 0;  // that closes it; 0: none yet
    cudaEvent_t done = nullptr;
  };

  Area& OpenArea() { return areas_[fences_ % kAreas]; }
  cudaError_t NextSegment();
  // If a fence has closed the area, waits for it and delivers what was copied there.
  static cudaError_t Reopen(Area& area);
  // Empties an area whose copies have been waited for with this result.
  static void Deliver(Area& area, cudaError_t result);

  cudaStream_t stream_;
  PinnedBytes uploads_, downloads_;
  cudaEvent_t segment_done_[kSegments] = {};
  int segment_ = 0;
  size_t segment_used_ = 0;
  Area areas_[kAreas];
  uint64_t fences_ = 0;  // placed so far
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_TRANSFERS_H_
