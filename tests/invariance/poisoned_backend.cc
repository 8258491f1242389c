#include "tests/invariance/poisoned_backend.h"

#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace isobit {
namespace {

class PoisonedBackend : public Backend {
 public:
  PoisonedBackend(std::unique_ptr<Backend> inner, int64_t* poisoned_bytes)
      : inner_(std::move(inner)), poisoned_bytes_(poisoned_bytes) {}

  DeviceInfo Info() const override { return inner_->Info(); }
  BackendCounters Counters() const override { return inner_->Counters(); }
  absl::Status CheckModel(const ModelShape& shape) const override {
    return inner_->CheckModel(shape);
  }

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    auto memory = inner_->Allocate(bytes);
    if (!memory.ok()) return memory.status();
    Fill(**memory);
    return std::make_unique<TrackedBuffer>(*std::move(memory), this);
  }
  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(std::span<const MatrixSource> parts,
                                                     WeightLayout layout) override {
    return inner_->LoadWeight(parts, layout);
  }
  absl::StatusOr<std::unique_ptr<KvCache>> CreateKvCache(const KvCacheShape& shape) override {
    auto cache = inner_->CreateKvCache(shape);
    if (!cache.ok()) return cache.status();
    std::vector<int32_t> pages(static_cast<size_t>(shape.pages));
    std::iota(pages.begin(), pages.end(), 0);
    inner_->FillPages(**cache, pages, kCanonicalNanBf16);
    return cache;
  }
  void FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) override {
    inner_->FillPages(cache, pages, value);
  }

  void Upload(const void* from, size_t bytes, void* to) override {
    for (TrackedBuffer* buffer : buffers_) {
      const auto* begin = buffer->As<const std::byte>();
      if (begin <= to && to < begin + buffer->bytes()) buffer->is_input = true;
    }
    inner_->Upload(from, bytes, to);
  }
  void Download(const void* from, size_t bytes, void* to) override {
    inner_->Download(from, bytes, to);
  }

  void Run(const Embed& op) override {
    for (TrackedBuffer* buffer : buffers_) {
      if (buffer->is_input) continue;
      Fill(*buffer);
      *poisoned_bytes_ += static_cast<int64_t>(buffer->bytes());
    }
    inner_->Run(op);
  }
  void Run(const RmsNorm& op) override { inner_->Run(op); }
  void Run(const Gemm& op) override { inner_->Run(op); }
  void Run(const RopeKvWrite& op) override { inner_->Run(op); }
  void Run(const Attention& op) override { inner_->Run(op); }
  void Run(const ScoreTokens& op) override { inner_->Run(op); }
  void Run(const SampleTokens& op) override { inner_->Run(op); }
  absl::Status Synchronize() override { return inner_->Synchronize(); }

 private:
  // Known to the backend as long as it lives.
  class TrackedBuffer : public Buffer {
   public:
    TrackedBuffer(std::unique_ptr<Buffer> memory, PoisonedBackend* owner)
        : Buffer(memory->data(), memory->bytes()), memory_(std::move(memory)), owner_(owner) {
      owner_->buffers_.insert(this);
    }
    ~TrackedBuffer() override { owner_->buffers_.erase(this); }
    bool is_input = false;

   private:
    std::unique_ptr<Buffer> memory_;
    PoisonedBackend* owner_;
  };

  void Fill(const Buffer& buffer) {
    const std::vector<uint8_t> poison(buffer.bytes(), 0xff);
    inner_->Upload(poison.data(), poison.size(), buffer.data());
  }

  std::unique_ptr<Backend> inner_;
  int64_t* poisoned_bytes_;
  std::set<TrackedBuffer*> buffers_;
};

}  // namespace

std::unique_ptr<Backend> MakePoisonedBackend(std::unique_ptr<Backend> inner,
                                             int64_t* poisoned_bytes) {
  return std::make_unique<PoisonedBackend>(std::move(inner), poisoned_bytes);
}

}  // namespace isobit
