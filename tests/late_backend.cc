#include "tests/late_backend.h"

#include <cstddef>

namespace isobit {

DeviceInfo LateBackend::Info() const {
  DeviceInfo info = ReferenceBackend::Info();
  info.kind = kind_;
  info.asynchronous = true;
  return info;
}

void LateBackend::FillPages(KvCache& cache, std::span<const int32_t> pages, Bf16 value) {
  issued_.push_back([this, &cache, pages = std::vector<int32_t>(pages.begin(), pages.end()),
                     value] { ReferenceBackend::FillPages(cache, pages, value); });
}

void LateBackend::Upload(const void* from, size_t bytes, void* to) {
  const auto* begin = static_cast<const std::byte*>(from);
  issued_.push_back([this, copy = std::vector<std::byte>(begin, begin + bytes), to] {
    ReferenceBackend::Upload(copy.data(), copy.size(), to);
  });
}

void LateBackend::Download(const void* from, size_t bytes, void* to) {
  issued_.push_back([this, from, bytes, to] { ReferenceBackend::Download(from, bytes, to); });
}

std::unique_ptr<Recording> LateBackend::Record(const std::function<void()>& issue) {
  auto recorded = std::make_unique<Recorded>();
  recorded->actions.swap(issued_);
  issue();
  recorded->actions.swap(issued_);
  return recorded;
}

bool LateBackend::Replay(const Recording& recording) {
  const std::vector<Action>& actions = static_cast<const Recorded&>(recording).actions;
  issued_.insert(issued_.end(), actions.begin(), actions.end());
  return true;
}

absl::Status LateBackend::Synchronize() { return Wait({done_ + issued_.size()}); }

absl::Status LateBackend::Wait(Fence fence) {
  if (fence.number <= done_) return absl::OkStatus();
  const auto end = issued_.begin() + static_cast<ptrdiff_t>(fence.number - done_);
  for (auto action = issued_.begin(); action != end; ++action) (*action)();
  issued_.erase(issued_.begin(), end);
  done_ = fence.number;
  return absl::OkStatus();
}

}  // namespace isobit
