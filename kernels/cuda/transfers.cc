#include "kernels/cuda/transfers.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/cuda_status.h"

namespace isobit::cuda {
namespace {

absl::StatusOr<PinnedBytes> AllocatePinned(size_t bytes) {
  void* data = nullptr;
  const cudaError_t error = cudaMallocHost(&data, bytes);
  if (error != cudaSuccess) return FromCuda(error, "allocating pinned memory");
  return PinnedBytes(static_cast<uint8_t*>(data));
}

constexpr size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

absl::StatusOr<std::unique_ptr<Transfers>> Transfers::Create(cudaStream_t stream) {
  std::unique_ptr<Transfers> transfers(new Transfers(stream));
  auto uploads = AllocatePinned(kSegments * kSegmentBytes);
  if (!uploads.ok()) return uploads.status();
  transfers->uploads_ = *std::move(uploads);
  auto downloads = AllocatePinned(kDownloadBytes);
  if (!downloads.ok()) return downloads.status();
  transfers->downloads_ = *std::move(downloads);
  for (cudaEvent_t& event : transfers->segment_done_) {
    const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error != cudaSuccess) return FromCuda(error, "creating events");
  }
  return transfers;
}

Transfers::~Transfers() {
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : segment_done_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
}

cudaError_t Transfers::NextSegment() {
  cudaError_t error = cudaEventRecord(segment_done_[segment_], stream_);
  if (error != cudaSuccess) return error;
  segment_ = (segment_ + 1) % kSegments;
  segment_used_ = 0;
  return cudaEventSynchronize(segment_done_[segment_]);
}

cudaError_t Transfers::Upload(const void* from, size_t bytes, void* to) {
  const auto* source = static_cast<const uint8_t*>(from);
  auto* target = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    if (segment_used_ == kSegmentBytes) {
      const cudaError_t error = NextSegment();
      if (error != cudaSuccess) return error;
    }
    const size_t piece = std::min(bytes, kSegmentBytes - segment_used_);
    uint8_t* staged = uploads_.get() + segment_ * kSegmentBytes + segment_used_;
    std::memcpy(staged, source, piece);
    const cudaError_t error =
        cudaMemcpyAsync(target, staged, piece, cudaMemcpyHostToDevice, stream_);
    if (error != cudaSuccess) return error;
    segment_used_ = std::min(segment_used_ + RoundUp(piece, kAlignment), kSegmentBytes);
    source += piece;
    target += piece;
    bytes -= piece;
  }
  return cudaSuccess;
}

cudaError_t Transfers::Download(const void* from, size_t bytes, void* to) {
  const auto* source = static_cast<const uint8_t*>(from);
  auto* target = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    if (download_used_ == kDownloadBytes) {
      const cudaError_t error = Finish();
      if (error != cudaSuccess) return error;
    }
    const size_t piece = std::min(bytes, kDownloadBytes - download_used_);
    const cudaError_t error = cudaMemcpyAsync(downloads_.get() + download_used_, source, piece,
                                              cudaMemcpyDeviceToHost, stream_);
    if (error != cudaSuccess) return error;
    pending_.push_back({download_used_, piece, target});
    download_used_ = std::min(download_used_ + RoundUp(piece, kAlignment), kDownloadBytes);
    source += piece;
    target += piece;
    bytes -= piece;
  }
  return cudaSuccess;
}

cudaError_t Transfers::Finish() {
  const cudaError_t error = cudaStreamSynchronize(stream_);
  if (error == cudaSuccess) {
    for (const Pending& p : pending_) {
      std::memcpy(p.to, downloads_.get() + p.offset, p.bytes);
    }
  }
  pending_.clear();
  download_used_ = 0;
  return error;
}

}  // namespace isobit::cuda
