#ifndef ISOBIT_RUNTIME_API_SAMPLING_JSON_H_
#define ISOBIT_RUNTIME_API_SAMPLING_JSON_H_

// Sampling parameters as fields of a JSON object, for requests and receipts alike.

#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "runtime/api/json_writer.h"
#include "runtime/engine/request.h"

namespace isobit {

// True if a sampling parameter has this name.
bool IsSamplingField(std::string_view name);

// Reads one parameter. InvalidArgument names the field if its value has another type or does not
// fit the type; ranges are ValidateSampling's business. REQUIRES: IsSamplingField(name).
absl::Status ReadSamplingField(const nlohmann::json& value, std::string_view name,
                               SamplingParams& params);

// Writes every parameter, in the order of SamplingParams.
void WriteSamplingFields(const SamplingParams& params, JsonWriter& out);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_API_SAMPLING_JSON_H_
