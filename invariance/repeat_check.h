#ifndef ISOBIT_INVARIANCE_REPEAT_CHECK_H_
#define ISOBIT_INVARIANCE_REPEAT_CHECK_H_

// Whether a machine repeats its own results: random requests are run together, token by token, and
// then every one of their tokens is drawn again from one prefill a completion. A processor or
// memory that makes mistakes now and then gives itself away. What audits do in the background of a
// running engine (EngineOptions::audit_share), done to everything.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/engine/engine.h"

namespace isobit {

struct RepeatRound {
  int64_t requests = 0;
  int64_t tokens = 0;    // that were drawn twice
  int64_t computed = 0;  // tokens, prompts included
  // "noise 3, token 12: first id 5, logprob -0.5 (bf000000); again id ...". Empty: none.
  std::string first_difference;

  bool ok() const { return tokens > 0 && first_difference.empty(); }
};

// One round of `count` requests, made from the seed. An error is a request's. REQUIRES: nobody else
// uses the engine.
absl::StatusOr<RepeatRound> RunTwice(Engine& engine, uint64_t seed, int64_t count);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_REPEAT_CHECK_H_
