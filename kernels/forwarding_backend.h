#ifndef ISOBIT_KERNELS_FORWARDING_BACKEND_H_
#define ISOBIT_KERNELS_FORWARDING_BACKEND_H_

// A backend that hands everything on to another one. Those that change or watch a part of a
// backend's work derive from it and override that part alone.
//
// As thread-safe as a backend: one thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "kernels/ops.h"

namespace isobit {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  DeviceInfo Info() const override { return inner_->Info(); }
  BackendCounters Counters() const override { return inner_->Counters(); }
  absl::Status CheckModel(const ModelShape& shape) const override {
    return inner_->CheckModel(shape);
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(std::span<const MatrixSource> parts,
                                                     WeightLayout layout) override {
    return inner_->LoadWeight(parts, layout);
  }
  absl::StatusOr<std::unique_ptr<Weight>> LoadQkvWeight(std::span<const MatrixSource> parts,
                                                        const QkvHeads& heads) override {
    return inner_->LoadQkvWeight(parts, heads);
  }
  absl::StatusOr<std::unique_ptr<KvCache>> CreateKvCache(const KvCacheShape& shape) override {
    return inner_->CreateKvCache(shape);
  }
  void FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) override {
    inner_->FillPages(cache, pages, value);
  }
  void Upload(const void* from, size_t bytes, void* to) override {
    inner_->Upload(from, bytes, to);
  }
  void Download(const void* from, size_t bytes, void* to) override {
    inner_->Download(from, bytes, to);
  }

  void Run(const Embed& op) override { inner_->Run(op); }
  void Run(const RmsNorm& op) override { inner_->Run(op); }
  void Run(const Gemm& op) override { inner_->Run(op); }
  void Run(const RopeKvWrite& op) override { inner_->Run(op); }
  void Run(const QkvProjection& op) override { inner_->Run(op); }
  void Run(const Attention& op) override { inner_->Run(op); }
  void Run(const ScoreTokens& op) override { inner_->Run(op); }
  void Run(const SampleTokens& op) override { inner_->Run(op); }

  // A backend that does more in Run() than to issue operations overrides these two: what it does
  // besides would be missing from a replay.
  std::unique_ptr<Recording> Record(const std::function<void()>& issue) override {
    return inner_->Record(issue);
  }
  bool Replay(const Recording& recording) override { return inner_->Replay(recording); }

  std::unique_ptr<Moment> Mark() override { return inner_->Mark(); }
  double SecondsBetween(const Moment& begin, const Moment& end) const override {
    return inner_->SecondsBetween(begin, end);
  }
  void BeginRange(const char* name) override { inner_->BeginRange(name); }
  void EndRange() override { inner_->EndRange(); }
  absl::Status Synchronize() override { return inner_->Synchronize(); }
  Fence PlaceFence() override { return inner_->PlaceFence(); }
  absl::Status Wait(Fence fence) override { return inner_->Wait(fence); }

 protected:
  Backend& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Backend> inner_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_FORWARDING_BACKEND_H_
