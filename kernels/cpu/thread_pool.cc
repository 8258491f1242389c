#include "kernels/cpu/thread_pool.h"

#include <system_error>

namespace isobit {
namespace {

// Some tens of microseconds on current processors: longer than the gap between two operations of a
// step, shorter than anybody would notice on an idle machine.
constexpr int kSpins = 2000;
// With more threads than cores a spinning thread only keeps the others from running.
constexpr int kSpinsOversubscribed = 20;
constexpr int kYields = 20;

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  spins_ = threads <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins
                                                                            : kSpinsOversubscribed;
  workers_.reserve(threads > 1 ? threads - 1 : 0);
  for (int worker = 1; worker < threads; ++worker) {
    try {
      workers_.emplace_back([this, worker] { WorkerLoop(worker); });
    } catch (const std::system_error&) {
      break;
    }
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++wake_ups_;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t tasks, const std::function<void(int64_t, int)>& body) {
  if (tasks <= 1 || workers_.empty()) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  body_ = &body;
  tasks_ = tasks;
  unfinished_.store(tasks, std::memory_order_relaxed);
  // Sequentially consistent against AwaitWork: either the worker sees the tasks before it sleeps,
  // or it is seen here as a sleeper.
  unclaimed_.store(tasks, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++wake_ups_;
    }
    wake_.notify_all();
  }
  RunTasks(/*worker=*/0);
  for (int spin = 0; unfinished_.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < spins_) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::RunTasks(int worker) {
  int64_t unclaimed = unclaimed_.load(std::memory_order_acquire);
  while (unclaimed > 0) {
    if (!unclaimed_.compare_exchange_weak(unclaimed, unclaimed - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      continue;
    }
    (*body_)(tasks_ - unclaimed, worker);
    unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    unclaimed = unclaimed_.load(std::memory_order_acquire);
  }
}

void ThreadPool::WorkerLoop(int worker) {
  while (!stop_.load()) {
    RunTasks(worker);
    AwaitWork();
  }
}

void ThreadPool::AwaitWork() {
  for (int i = 0; i < spins_ + kYields; ++i) {
    if (unclaimed_.load(std::memory_order_acquire) > 0 || stop_.load(std::memory_order_relaxed)) {
      return;
    }
    if (i < spins_) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t seen = wake_ups_;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (unclaimed_.load(std::memory_order_seq_cst) == 0 && !stop_.load()) {
    // Ends at the next loop even if others have run all its tasks by then: more loops follow.
    wake_.wait(lock, [&] { return wake_ups_ != seen; });
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace isobit
