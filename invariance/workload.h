#ifndef ISOBIT_INVARIANCE_WORKLOAD_H_
#define ISOBIT_INVARIANCE_WORKLOAD_H_

// The requests that the check of a model runs: every kind of prompt and of sampling, made from a
// seed and the model's vocabulary alone, so that they are the same on every machine.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "invariance/outcome.h"
#include "runtime/engine/engine_core.h"
#include "runtime/model/model.h"

namespace isobit {

struct WorkloadSize {
  int64_t output = 8;        // tokens a choice
  int64_t long_prompt = 70;  // of the longest ordinary prompt
  int64_t lengths = 3;       // how many prompts of odd lengths
  int64_t shared = 48;       // tokens that some prompts have in common
};

// Text, token ids, greedy, sampled with every filter and penalty, several choices, raw and
// processed log-probabilities, prompt log-probabilities, stop strings. Every sampled one has its
// own seed; ids are "text 0", "sampled 1" and so on. Clipped to what the model's positions allow.
// An error is the tokenizer's.
absl::StatusOr<std::vector<PreparedRequest>> MakeWorkload(const Model& model,
                                                          const WorkloadSize& size);

// `count` unlike requests to keep others company: random tokens, lengths in [1, longest], sampling
// and seeds.
std::vector<PreparedRequest> MakeNoise(const Model& model, uint64_t seed, int64_t count,
                                       int64_t longest);

// A prompt of `length` random tokens, greedy, `output` tokens.
PreparedRequest MakeLongPrompt(const Model& model, int64_t length, int64_t output);

// Scores what `decoded` gave for a choice, with as many alternatives as it had.
// REQUIRES: the request was `request` and asked for log-probabilities.
PreparedRequest MakeScoring(const PreparedRequest& request, const Outcome& decoded, int choice);

}  // namespace isobit

#endif  // ISOBIT_INVARIANCE_WORKLOAD_H_
