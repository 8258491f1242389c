#ifndef ISOBIT_RUNTIME_PYTHON_WAKEUPS_H_
#define ISOBIT_RUNTIME_PYTHON_WAKEUPS_H_

// News from the engine's thread to one that waits for many requests at once, without Python's lock
// on the side of the engine: keys that have news, and a file descriptor that is readable while
// there are any. Thread-safe.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace isobit::python {

class Wakeups {
 public:
  // Throws std::system_error if the process has no file descriptor left.
  Wakeups();
  ~Wakeups();
  Wakeups(const Wakeups&) = delete;
  Wakeups& operator=(const Wakeups&) = delete;

  int fd() const { return fd_; }

  void Push(uint64_t key);
  // All keys since the last call, in order of arrival.
  std::vector<uint64_t> Take();
  // The same; waits for the first, at most `timeout_ms`.
  std::vector<uint64_t> Wait(int64_t timeout_ms);

 private:
  std::vector<uint64_t> TakeLocked();

  const int fd_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> keys_;
};

}  // namespace isobit::python

#endif  // ISOBIT_RUNTIME_PYTHON_WAKEUPS_H_
