#include "runtime/engine/scheduler.h"

#include <algorithm>

namespace isobit {
namespace {

int64_t PagesFor(int64_t tokens, int64_t page_tokens) {
  return (tokens + page_tokens - 1) / page_tokens;
}

}  // namespace

int64_t StepPlan::tokens() const {
  int64_t sum = 0;
  for (const Item& item : items) sum += item.count;
  return sum;
}

StepPlan Schedule(std::span<const SequenceState> running, std::span<const SequenceState> waiting,
                  int64_t available_pages, const SchedulerLimits& limits) {
  StepPlan plan;
  int64_t budget = limits.max_num_batched_tokens;
  size_t end = running.size();  // sequences from here on are preempted
  for (size_t i = 0; i < end && budget > 0; ++i) {
    const SequenceState& sequence = running[i];
    const int64_t count = std::min(sequence.tokens - sequence.computed, budget);
    const int64_t new_pages = std::max<int64_t>(
        0, PagesFor(sequence.computed + count, limits.page_tokens) - sequence.pages);
    // The last to arrive gives way, if need be the sequence itself.
    while (available_pages < new_pages && end > i) {
      --end;
      available_pages += running[end].exclusive;
      plan.preempted.push_back(running[end].id);
    }
    if (end == i) break;
    available_pages -= new_pages;
    budget -= count;
    plan.items.push_back({sequence.id, sequence.computed, count, new_pages});
  }
  // A preempted sequence is at the head of the queue; admitting another one would take the pages
  // that it waits for.
  if (!plan.preempted.empty()) return plan;

  int64_t running_count = static_cast<int64_t>(running.size());
  for (const SequenceState& sequence : waiting) {
    if (budget <= 0 || running_count >= limits.max_num_seqs) break;
    const int64_t count = std::min(sequence.tokens - sequence.computed, budget);
    const int64_t new_pages =
        PagesFor(sequence.computed + count, limits.page_tokens) - sequence.pages;
    if (available_pages < new_pages + sequence.exclusive) break;
    available_pages -= new_pages + sequence.exclusive;
    budget -= count;
    ++running_count;
    ++plan.admitted;
    plan.items.push_back({sequence.id, sequence.computed, count, new_pages});
  }
  return plan;
}

}  // namespace isobit
