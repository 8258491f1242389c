#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace isobit {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTaskOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.threads(), GetParam());
  for (int64_t tasks : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<int> runs(tasks, 0);  // plain: the pool must order these writes before its return
    pool.ParallelFor(tasks, [&](int64_t task, int) { ++runs[task]; });
    EXPECT_EQ(runs, std::vector<int>(tasks, 1));
  }
}

TEST_P(ThreadPoolTest, WorkersNeverRunTwoTasksAtOnce) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<int>> busy(pool.threads());
  std::atomic<int> collisions{0};
  std::atomic<int> strangers{0};
  pool.ParallelFor(2000, [&](int64_t, int worker) {
    if (worker < 0 || worker >= GetParam()) {
      ++strangers;
      return;
    }
    if (busy[worker].fetch_add(1) != 0) ++collisions;
    busy[worker].fetch_sub(1);
  });
  EXPECT_EQ(collisions, 0);
  EXPECT_EQ(strangers, 0);
}

// Each loop reads what all tasks of the loop before wrote: the pattern of a forward pass.
TEST_P(ThreadPoolTest, LoopsFollowEachOther) {
  ThreadPool pool(GetParam());
  constexpr int64_t kTasks = 16;
  std::vector<int64_t> now(kTasks, 1), next(kTasks, 0);
  for (int loop = 0; loop < 2000; ++loop) {
    pool.ParallelFor(kTasks, [&](int64_t task, int) {
      int64_t sum = 0;
      for (int64_t value : now) sum += value;
      next[task] = (sum + task) % 1009;
    });
    std::swap(now, next);
  }
  std::vector<int64_t> want(kTasks, 1);
  for (int loop = 0; loop < 2000; ++loop) {
    int64_t sum = 0;
    for (int64_t value : want) sum += value;
    for (int64_t task = 0; task < kTasks; ++task) want[task] = (sum + task) % 1009;
  }
  EXPECT_EQ(now, want);
}

TEST_P(ThreadPoolTest, WakesThreadsThatWentToSleep) {
  ThreadPool pool(GetParam());
  for (int loop = 0; loop < 5; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> arrived{0};
    // Ends only if every thread takes part, so a thread that stayed asleep hangs the test.
    pool.ParallelFor(pool.threads(), [&](int64_t, int) {
      ++arrived;
      while (arrived.load() < pool.threads()) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, pool.threads());
  }
}

TEST_P(ThreadPoolTest, StartsAndStopsIdle) {
  for (int i = 0; i < 20; ++i) {
    ThreadPool pool(GetParam());
    if (i % 2 == 1) pool.ParallelFor(3, [](int64_t, int) {});
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, OneThreadRunsInlineAndInOrder) {
  ThreadPool pool(1);
  std::vector<int64_t> order;
  const std::thread::id caller = std::this_thread::get_id();
  pool.ParallelFor(4, [&](int64_t task, int worker) {
    EXPECT_EQ(worker, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(task);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(ThreadPool, ZeroThreadsIsOne) { EXPECT_EQ(ThreadPool(0).threads(), 1); }

}  // namespace
}  // namespace isobit
