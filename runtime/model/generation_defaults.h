#ifndef ISOBIT_RUNTIME_MODEL_GENERATION_DEFAULTS_H_
#define ISOBIT_RUNTIME_MODEL_GENERATION_DEFAULTS_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace isobit {

// What a model's makers recommend for sampling (generation_config.json); none: nothing is said.
// Values as they stand in the file: whoever uses them checks them as those of any request.
struct GenerationDefaults {
  std::optional<double> temperature;  // 0 if the file says do_sample: false and no temperature
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<int64_t> top_k;
  std::optional<double> repetition_penalty;
  std::vector<int32_t> eos_ids;

  bool operator==(const GenerationDefaults&) const = default;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_MODEL_GENERATION_DEFAULTS_H_
