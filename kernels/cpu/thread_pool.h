#ifndef ISOBIT_KERNELS_CPU_THREAD_POOL_H_
#define ISOBIT_KERNELS_CPU_THREAD_POOL_H_

// Fork and join for the operations of the CPU backend.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace isobit {

// A fixed set of threads that run one loop at a time. A decode step is some hundred loops of a few
// microseconds each, so between loops the threads first spin, and sleep only when nothing came for
// a while. What a task computes must not depend on the worker that runs it.
//
// Thread safety: one thread at a time calls ParallelFor, and never from inside a task.
class ThreadPool {
 public:
  // Starts threads - 1 threads; the caller of ParallelFor is the last one. If the system refuses to
  // start some, the pool works with those it got.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // At least 1.
  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs body(task, worker) once for every task in [0, tasks) and returns when all have finished.
  // Tasks are handed out in ascending order, one at a time; no two tasks of the same worker run at
  // once. worker is in [0, threads()), 0 the caller. What tasks wrote is visible after the return.
  void ParallelFor(int64_t tasks, const std::function<void(int64_t task, int worker)>& body);

 private:
  void RunTasks(int worker);
  void WorkerLoop(int worker);
  void AwaitWork();

  // Claiming a task is one compare-and-swap on unclaimed_. A task that was claimed keeps its loop
  // from ending, so a worker that claims one may read body_ and tasks_, and a worker that comes
  // late or not at all holds up nobody.
  alignas(64) std::atomic<int64_t> unclaimed_{0};
  alignas(64) std::atomic<int64_t> unfinished_{0};
  alignas(64) const std::function<void(int64_t, int)>* body_ = nullptr;
  int64_t tasks_ = 0;

  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  uint64_t wake_ups_ = 0;  // guarded by mutex_

  int spins_;
  std::vector<std::thread> workers_;
};

}  // namespace isobit

#endif  // ISOBIT_KERNELS_CPU_THREAD_POOL_H_
