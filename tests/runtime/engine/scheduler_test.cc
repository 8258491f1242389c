#include "runtime/engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace isobit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const SchedulerLimits kLimits = {
    .max_num_seqs = 4, .max_num_batched_tokens = 100, .page_tokens = 16};

SequenceState Running(int64_t id, int64_t tokens, int64_t computed) {
  const int64_t pages = (computed + 15) / 16;
  return {.id = id, .tokens = tokens, .computed = computed, .pages = pages, .exclusive = pages};
}

SequenceState Waiting(int64_t id, int64_t tokens, int64_t cached_pages = 0, int64_t unheld = 0) {
  return {.id = id,
          .tokens = tokens,
          .computed = cached_pages * 16,
          .pages = cached_pages,
          .exclusive = unheld};
}

MATCHER_P4(Item, id, begin, count, new_pages, "") {
  return arg.id == id && arg.begin == begin && arg.count == count && arg.new_pages == new_pages;
}

TEST(Scheduler, DecodesRunningAndAdmitsWaiting) {
  const StepPlan plan =
      Schedule({{Running(1, 17, 16), Running(2, 20, 19)}}, {{Waiting(3, 30)}}, 10, kLimits);
  EXPECT_THAT(plan.items, ElementsAre(Item(1, 16, 1, 1), Item(2, 19, 1, 0), Item(3, 0, 30, 2)));
  EXPECT_EQ(plan.admitted, 1);
  EXPECT_EQ(plan.tokens(), 32);
  EXPECT_THAT(plan.preempted, IsEmpty());
}

TEST(Scheduler, BudgetCutsPromptsIntoChunks) {
  SchedulerLimits limits = kLimits;
  limits.max_num_batched_tokens = 7;
  StepPlan plan = Schedule({}, {{Waiting(1, 30), Waiting(2, 5)}}, 10, limits);
  EXPECT_THAT(plan.items, ElementsAre(Item(1, 0, 7, 1)));
  plan = Schedule({{Running(1, 30, 28)}}, {{Waiting(2, 50)}}, 10, limits);
  EXPECT_THAT(plan.items, ElementsAre(Item(1, 28, 2, 0), Item(2, 0, 5, 1)));
}

TEST(Scheduler, SeatsAreLimited) {
  const std::vector<SequenceState> waiting = {Waiting(1, 2), Waiting(2, 2), Waiting(3, 2),
                                              Waiting(4, 2), Waiting(5, 2)};
  EXPECT_EQ(Schedule({}, waiting, 100, kLimits).admitted, 4);
}

TEST(Scheduler, TheLastToArriveIsPreempted) {
  const std::vector<SequenceState> running = {Running(1, 17, 16), Running(2, 33, 32),
                                              Running(3, 40, 39)};
  const StepPlan plan = Schedule(running, {{Waiting(4, 1)}}, 0, kLimits);
  EXPECT_THAT(plan.preempted, ElementsAre(3));
  EXPECT_THAT(plan.items, ElementsAre(Item(1, 16, 1, 1), Item(2, 32, 1, 1)));
  EXPECT_EQ(plan.admitted, 0) << "nobody is admitted over a preempted sequence";
}

TEST(Scheduler, ASequenceMayPreemptItself) {
  const StepPlan plan = Schedule({{Running(1, 18, 17), Running(2, 17, 16)}}, {}, 0, kLimits);
  EXPECT_THAT(plan.items, ElementsAre(Item(1, 17, 1, 0)));
  EXPECT_THAT(plan.preempted, ElementsAre(2));
}

TEST(Scheduler, SharedPagesAreNotCountedAsFreed) {
  std::vector<SequenceState> running = {Running(1, 17, 16), Running(2, 40, 39), Running(3, 40, 39)};
  running[2].exclusive = 0;  // all its pages are also held by sequence 2
  const StepPlan plan = Schedule(running, {}, 0, kLimits);
  EXPECT_THAT(plan.preempted, ElementsAre(3, 2));
}

TEST(Scheduler, CachedPagesSaveTokensButUseAvailability) {
  // 3 of 4 pages cached, of which 2 are held by nobody: with one new page that needs 3.
  const std::vector<SequenceState> waiting = {Waiting(1, 60, 3, 2)};
  EXPECT_EQ(Schedule({}, waiting, 2, kLimits).admitted, 0);
  EXPECT_THAT(Schedule({}, waiting, 3, kLimits).items, ElementsAre(Item(1, 48, 12, 1)));
}

TEST(Scheduler, NobodyOvertakes) {
  EXPECT_THAT(Schedule({}, {{Waiting(1, 64), Waiting(2, 1)}}, 2, kLimits).items, IsEmpty());
}

// Whatever the state: limits hold, pages suffice, order is kept, and something always runs.
TEST(Scheduler, RandomStatesKeepEveryPromise) {
  std::mt19937 random(3);
  auto pick = [&random](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  int64_t preempted_in_all = 0, admitted_in_all = 0;
  for (int round = 0; round < 20000; ++round) {
    const SchedulerLimits limits = {
        .max_num_seqs = pick(1, 8), .max_num_batched_tokens = pick(1, 64), .page_tokens = 16};
    const int64_t pool = pick(8, 24);  // the longest sequence needs 8
    std::vector<SequenceState> running, waiting;
    int64_t id = 0, held = 0;
    for (int64_t i = pick(0, limits.max_num_seqs); i > 0; --i) {
      const int64_t computed = pick(0, 127);
      SequenceState s = Running(++id, pick(computed + 1, 128), computed);
      if (held + s.pages > pool) break;
      held += s.pages;
      running.push_back(s);
    }
    for (int64_t i = pick(0, 4); i > 0; --i) {
      const int64_t cached = pick(0, 2);
      waiting.push_back(Waiting(++id, pick(cached * 16 + 1, 128), cached, cached));
    }
    const StepPlan plan = Schedule(running, waiting, pool - held, limits);

    preempted_in_all += static_cast<int64_t>(plan.preempted.size());
    admitted_in_all += plan.admitted;
    int64_t available = pool - held, tokens = 0, last = 0;
    size_t left = running.size();
    for (int64_t preempted : plan.preempted) {
      ASSERT_EQ(running[--left].id, preempted);
      available += running[left].exclusive;
    }
    for (size_t i = 0; i < plan.items.size(); ++i) {
      const auto& item = plan.items[i];
      ASSERT_GT(item.id, last);
      last = item.id;
      const bool is_new = static_cast<int64_t>(plan.items.size() - i) <= plan.admitted;
      const auto& from =
          is_new ? waiting
                 : std::vector(running.begin(), running.begin() + static_cast<ptrdiff_t>(left));
      const auto it = std::ranges::find(from, item.id, &SequenceState::id);
      ASSERT_NE(it, from.end());
      ASSERT_EQ(item.begin, it->computed);
      ASSERT_GE(item.count, 1);
      ASSERT_LE(item.begin + item.count, it->tokens);
      ASSERT_GE((it->pages + item.new_pages) * 16, item.begin + item.count);
      available -= item.new_pages + (is_new ? it->exclusive : 0);
      tokens += item.count;
    }
    ASSERT_GE(available, 0);
    ASSERT_LE(tokens, limits.max_num_batched_tokens);
    ASSERT_LE(static_cast<int64_t>(left) + plan.admitted,
              std::max<int64_t>(limits.max_num_seqs, static_cast<int64_t>(running.size())));
    const bool idle = running.empty() && waiting.empty();
    ASSERT_TRUE(idle || !plan.items.empty());
  }
  EXPECT_GT(preempted_in_all, 1000);
  EXPECT_GT(admitted_in_all, 1000);
}

}  // namespace
}  // namespace isobit
