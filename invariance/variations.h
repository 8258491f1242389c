#ifndef ISOBIT_INVARIANCE_VARIATIONS_H_
#define ISOBIT_INVARIANCE_VARIATIONS_H_

// The ways in which the check of a model runs its requests.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"

namespace isobit {

struct Variation {
  std::string name;
  EngineOptions engine;
  uint64_t shuffle_seed = 0;  // order of arrival; 0: as they stand
  int64_t steps_between = 0;  // steps between arrivals; 0: all before the first
  int64_t noise = 0;          // unlike requests that arrive among them
  int64_t longest_noise = 40;
  bool cancel_noise = false;  // in the middle of their work
  bool poison_free_pages = false;
  bool ask_logprobs = true;  // as the request does
  int runs = 1;              // on the same engine: the second finds a warm cache
  // What must have happened, or the row shows nothing.
  bool expect_preemption = false;
  bool expect_cached = false;
};

// The largest page size that is tried.
inline constexpr int64_t kLargestPage = 128;

// `base` has room for all requests at once and no prefix cache; `longest` is the longest request's
// prompt and output.
std::vector<Variation> MakeVariations(const EngineOptions& base, int64_t longest, bool full);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_VARIATIONS_H_
