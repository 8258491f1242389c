#include "tests/invariance/poisoned_backend.h"

#include <functional>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "kernels/forwarding_backend.h"

namespace isobit {
namespace {

class PoisonedBackend : public ForwardingBackend {
 public:
  PoisonedBackend(std::unique_ptr<Backend> inner, int64_t* poisoned_bytes)
      : ForwardingBackend(std::move(inner)), poisoned_bytes_(poisoned_bytes) {}

  using ForwardingBackend::Run;

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    auto memory = inner().Allocate(bytes);
    if (!memory.ok()) return memory.status();
    Fill(**memory);
    return std::make_unique<TrackedBuffer>(*std::move(memory), this);
  }
  absl::StatusOr<std::unique_ptr<KvCache>> CreateKvCache(const KvCacheShape& shape) override {
    auto cache = inner().CreateKvCache(shape);
    if (!cache.ok()) return cache.status();
    std::vector<int32_t> pages(static_cast<size_t>(shape.pages));
    std::iota(pages.begin(), pages.end(), 0);
    inner().FillPages(**cache, pages, kCanonicalNanBf16);
    return cache;
  }
  void Upload(const void* from, size_t bytes, void* to) override {
    for (TrackedBuffer* buffer : buffers_) {
      const auto* begin = buffer->As<const std::byte>();
      if (begin <= to && to < begin + buffer->bytes()) buffer->is_input = true;
    }
    inner().Upload(from, bytes, to);
  }
  void Run(const Embed& op) override {
    for (TrackedBuffer* buffer : buffers_) {
      if (buffer->is_input) continue;
      Fill(*buffer);
      *poisoned_bytes_ += static_cast<int64_t>(buffer->bytes());
    }
    inner().Run(op);
  }
  // Nor does a pass find the tokens that the one before it drew.
  DeviceInfo Info() const override {
    DeviceInfo info = inner().Info();
    info.asynchronous = false;
    return info;
  }
  // Every pass is poisoned, so none is replayed.
  std::unique_ptr<Recording> Record(const std::function<void()>& /*issue*/) override {
    return nullptr;
  }

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
    inner().Upload(poison.data(), poison.size(), buffer.data());
  }

  int64_t* poisoned_bytes_;
  std::set<TrackedBuffer*> buffers_;
};

}  // namespace

std::unique_ptr<Backend> MakePoisonedBackend(std::unique_ptr<Backend> inner,
                                             int64_t* poisoned_bytes) {
  return std::make_unique<PoisonedBackend>(std::move(inner), poisoned_bytes);
}

}  // namespace isobit
