#ifndef ISOBIT_RUNTIME_API_C_PARAMETERS_H_
#define ISOBIT_RUNTIME_API_C_PARAMETERS_H_

// Parameters of isobit.h to those of the engine. Ranges are the engine's business; here is what C
// can get wrong: null pointers, structs of another version, numbers that stand for nothing.

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/api/c/device.h"
#include "runtime/api/c/isobit.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/request.h"

namespace isobit::c {

isobit_engine_params DefaultEngineParams();
isobit_sampling_params DefaultSamplingParams();

absl::Status ReadEngineParams(const isobit_engine_params* params, DeviceOptions& device,
                              EngineOptions& options);

absl::Status ReadIds(const int32_t* ids, size_t count, const char* name, std::vector<int32_t>& out);

// Messages, tools and variables of the template. InvalidArgument unless there are messages.
absl::Status ReadConversation(const isobit_request_params& from, Request& out);

// `params` as ReadStruct left them.
absl::StatusOr<Request> ReadRequest(const isobit_request_params& params);

}  // namespace isobit::c

#endif  // ISOBIT_RUNTIME_API_C_PARAMETERS_H_
