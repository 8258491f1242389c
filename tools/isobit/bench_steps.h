#ifndef ISOBIT_TOOLS_ISOBIT_BENCH_STEPS_H_
#define ISOBIT_TOOLS_ISOBIT_BENCH_STEPS_H_

// Parts of `isobit bench`: whole steps, and many requests, beside what the device's ceilings allow.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/api/json_writer.h"
#include "runtime/engine/engine.h"
#include "runtime/model/model.h"
#include "tools/isobit/ceilings.h"

namespace isobit {

// Bytes of weights that a step reads: of an embedding that is not the output matrix too, next to
// nothing.
int64_t StepWeightBytes(const Model& model);

struct StepTimes {
  // Steps in which each sequence decodes one token.
  struct Decode {
    int64_t sequences = 0;
    int64_t context = 0;  // in the middle of the run
    double seconds = 0;   // median of a step; 0: not all sequences fit into the KV pool
    double floor = 0;     // seconds in which weights, keys and values are read
  };
  std::vector<Decode> decode;
  // One prompt, up to its first token.
  int64_t prefill_tokens = 0;
  double prefill_seconds = 0;
  double prefill_floor = 0;  // seconds for the layers' GEMMs

  std::string Text() const;
  void WriteJson(JsonWriter& out) const;  // a member "steps"
};

// Each measured after a start of the engine; the model is given back.
absl::StatusOr<StepTimes> TimeSteps(std::unique_ptr<Model>& model, const EngineOptions& options,
                                    const Ceilings& ceilings, int64_t decode_tokens, int repeat);

struct RequestTimes {
  int64_t requests = 0, prompt_tokens = 0, max_tokens = 0, at_once = 0;
  double seconds = 0;
  // The prompts' GEMMs at the rate of arithmetic, then all that decoding reads, weights once for
  // as many tokens as run at once.
  double floor = 0;

  std::string Text() const;
  void WriteJson(JsonWriter& out) const;  // a member "requests"
};

absl::StatusOr<RequestTimes> TimeRequests(std::unique_ptr<Model>& model,
                                          const EngineOptions& options, const Ceilings& ceilings,
                                          int64_t requests);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_BENCH_STEPS_H_
