#include "runtime/python/wakeups.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

namespace isobit::python {

Wakeups::Wakeups() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Wakeups::~Wakeups() { close(fd_); }

void Wakeups::Push(uint64_t key) {
  const std::lock_guard lock(mutex_);
  keys_.push_back(key);
  if (keys_.size() > 1) return;
  const uint64_t one = 1;
  // Can't fail: the counter is 0, since whoever emptied the list has read it.
  [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof(one));
  changed_.notify_one();
}

std::vector<uint64_t> Wakeups::TakeLocked() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(fd_, &count, sizeof(count));
  return std::exchange(keys_, {});
}

std::vector<uint64_t> Wakeups::Take() {
  const std::lock_guard lock(mutex_);
  return TakeLocked();
}

std::vector<uint64_t> Wakeups::Wait(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return !keys_.empty(); });
  return TakeLocked();
}

}  // namespace isobit::python
