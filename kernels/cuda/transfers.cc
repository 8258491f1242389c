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
  auto downloads = AllocatePinned(kAreas * kAreaBytes);
  if (!downloads.ok()) return downloads.status();
  transfers->downloads_ = *std::move(downloads);
  std::vector<cudaEvent_t*> events;
  for (cudaEvent_t& event : transfers->segment_done_) events.push_back(&event);
  for (int i = 0; i < kAreas; ++i) {
    Area& area = transfers->areas_[i];
    area.data = transfers->downloads_.get() + i * kAreaBytes;
    events.push_back(&area.done);
  }
  for (cudaEvent_t* event : events) {
    const cudaError_t error = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    if (error != cudaSuccess) return FromCuda(error, "creating events");
  }
  return transfers;
}

Transfers::~Transfers() {
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : segment_done_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  for (const Area& area : areas_) {
    if (area.done != nullptr) cudaEventDestroy(area.done);
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
  Area& area = OpenArea();
  if (const cudaError_t error = Reopen(area); error != cudaSuccess) return error;
  while (bytes > 0) {
    if (area.used == kAreaBytes) {
      const cudaError_t error = Finish();
      if (error != cudaSuccess) return error;
    }
    const size_t piece = std::min(bytes, kAreaBytes - area.used);
    uint8_t* staged = area.data + area.used;
    const cudaError_t error =
        cudaMemcpyAsync(staged, source, piece, cudaMemcpyDeviceToHost, stream_);
    if (error != cudaSuccess) return error;
    area.pending.push_back({staged, piece, target});
    area.used = std::min(area.used + RoundUp(piece, kAlignment), kAreaBytes);
    source += piece;
    target += piece;
    bytes -= piece;
  }
  return cudaSuccess;
}

void Transfers::Deliver(Area& area, cudaError_t result) {
  if (result == cudaSuccess) {
    for (const Pending& p : area.pending) std::memcpy(p.to, p.staged, p.bytes);
  }
  area.pending.clear();
  area.used = 0;
  area.fence = 0;
}

cudaError_t Transfers::Finish() {
  const cudaError_t error = cudaStreamSynchronize(stream_);
  for (Area& area : areas_) Deliver(area, error);
  return error;
}

cudaError_t Transfers::PlaceFence(Fence* fence) {
  Area& area = OpenArea();
  if (const cudaError_t error = Reopen(area); error != cudaSuccess) return error;
  area.fence = fence->number = ++fences_;
  return cudaEventRecord(area.done, stream_);
}

cudaError_t Transfers::Wait(Fence fence) {
  for (Area& area : areas_) {
    if (area.fence == fence.number) return Reopen(area);
  }
  return cudaSuccess;  // it was waited for already
}

cudaError_t Transfers::Reopen(Area& area) {
  if (area.fence == 0) return cudaSuccess;
  const cudaError_t error = cudaEventSynchronize(area.done);
  Deliver(area, error);
  return error;
}

}  // namespace isobit::cuda
