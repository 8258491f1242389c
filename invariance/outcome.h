#ifndef ISOBIT_INVARIANCE_OUTCOME_H_
#define ISOBIT_INVARIANCE_OUTCOME_H_

// Everything that comes of a request, and whether two of them are equal.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "invariance/comparison.h"
#include "runtime/engine/request.h"

namespace isobit {

struct Outcome {
  absl::Status status;  // of the request
  Completion completion;
  // Full logits by choice and position, if they were recorded.
  std::map<std::pair<int, int64_t>, std::vector<float>> logits;
};

enum class CompareScope {
  kAll,
  // Logits and log-probabilities only where both have them: of requests that asked for less.
  kShared,
};

// Compares in the order in which things are computed: logits, then log-probabilities, ids, text and
// digests. So the first difference found is where the bits left each other.
void CompareOutcomes(const Outcome& expected, const Outcome& got, CompareScope scope,
                     Comparison* comparison);

// What decoding gave for one choice, against `scored`: the outcome of a request whose prompt is the
// prompt and output of that choice, with max_tokens 0 and prompt_logprobs on. The difference must
// be exactly zero. REQUIRES: log-probabilities of the decoded request are raw.
void CompareDecodedWithScored(const Outcome& decoded, int choice, const Outcome& scored,
                              Comparison* comparison);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_OUTCOME_H_
