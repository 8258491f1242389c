#ifndef ISOBIT_TOOLS_ISOBIT_SAMPLING_OPTIONS_H_
#define ISOBIT_TOOLS_ISOBIT_SAMPLING_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "runtime/engine/request.h"
#include "runtime/model/generation_defaults.h"

namespace isobit {

// Sampling parameters as options, under the names that they have in requests. The seed is the
// engine's option, and completions are one.
struct SamplingOptions {
  SamplingParams params;
  std::optional<int64_t> max_tokens;    // none: the command chooses
  std::vector<std::string> logit_bias;  // "TOKEN:BIAS"
  // What a model may recommend; none: not given.
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
};

void AddSamplingOptions(CLI::App& command, SamplingOptions& options);

// The parameters as given, else the defaults of requests. InvalidArgument if a bias is not
// TOKEN:BIAS; ranges are checked when the request is submitted.
absl::StatusOr<SamplingParams> SamplingOf(const SamplingOptions& options);

// Makes parameters that were not given what the model recommends, if it does.
void Recommend(const GenerationDefaults& recommended, const SamplingOptions& options,
               SamplingParams& params);

}  // namespace isobit

#endif  // ISOBIT_TOOLS_ISOBIT_SAMPLING_OPTIONS_H_
