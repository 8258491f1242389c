#ifndef ISOBIT_RUNTIME_ENGINE_SCHEDULER_H_
#define ISOBIT_RUNTIME_ENGINE_SCHEDULER_H_

// Decides what runs in the next step. A pure function: state in, plan out; no clock, no memory.
//
// Sequences run in order of arrival. Those running go first, each with all of its tokens that are
// not computed yet (one when decoding, a chunk of the prompt when prefilling), as far as the token
// budget reaches. If pages run out, the sequence that came last gives its own back and will be
// computed again (its tokens are kept, so nothing is lost). Then waiting sequences are admitted in
// order while the limits allow; none overtakes another.

#include <cstdint>
#include <span>
#include <vector>

namespace isobit {

struct SequenceState {
  int64_t id = 0;        // ascending in order of arrival
  int64_t tokens = 0;    // prompt and output so far, >= 1
  int64_t computed = 0;  // of these, how many have keys and values in pages; < tokens. If waiting:
                         // would have, by the prefix cache
  int64_t pages = 0;     // pages held; if waiting: pages that the prefix cache would give
  // Running: how many pages become available if this sequence and all that came later give theirs
  // back, beyond those of the later ones. Waiting: how many of `pages` nobody holds, so that taking
  // them makes that many fewer available.
  int64_t exclusive = 0;
};

struct SchedulerLimits {
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  int64_t page_tokens = 0;
};

struct StepPlan {
  struct Item {
    int64_t id = 0;
    int64_t begin = 0;      // first token to compute
    int64_t count = 0;      // how many, >= 1
    int64_t new_pages = 0;  // to be allocated before
  };
  std::vector<Item> items;         // running ones, then admitted ones; each in order of arrival
  std::vector<int64_t> preempted;  // the last to arrive first
  int64_t admitted = 0;            // how many of `items`, at their end, were waiting
  int64_t tokens() const;
};

// REQUIRES: `running` and `waiting` in order of id; every sequence fits the pool when alone.
StepPlan Schedule(std::span<const SequenceState> running, std::span<const SequenceState> waiting,
                  int64_t available_pages, const SchedulerLimits& limits);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_ENGINE_SCHEDULER_H_
