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
  // `to` holds the data after the next Finish().
  cudaError_t Download(const void* from, size_t bytes, void* to);
  // Waits for the stream, then delivers all downloads. After an error they are dropped.
  cudaError_t Finish();

 private:
  explicit Transfers(cudaStream_t stream) : stream_(stream) {}

  // Uploads fill the segments of a ring in turn; a segment is used again when the copies from it
  // are done.
  static constexpr size_t kSegmentBytes = size_t{1} << 20;
  static constexpr int kSegments = 4;
  static constexpr size_t kDownloadBytes = size_t{4} << 20;
  // Keeps copies aligned.
  static constexpr size_t kAlignment = 256;

  struct Pending {
    size_t offset, bytes;
    void* to;
  };

  cudaError_t NextSegment();

  cudaStream_t stream_;
  PinnedBytes uploads_, downloads_;
  cudaEvent_t segment_done_[kSegments] = {};
  int segment_ = 0;
  size_t segment_used_ = 0;
  size_t download_used_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace isobit::cuda

#endif  // ISOBIT_KERNELS_CUDA_TRANSFERS_H_
