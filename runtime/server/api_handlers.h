#ifndef ISOBIT_RUNTIME_SERVER_API_HANDLERS_H_
#define ISOBIT_RUNTIME_SERVER_API_HANDLERS_H_

// What the paths of a server do. Handlers run on workers; `services` outlives the router.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "runtime/server/generation.h"
#include "runtime/server/router.h"

namespace isobit {

// /v1/completions, /v1/chat/completions, /generate and /score.
void AddGenerationRoutes(const GenerationServices& services, Router& router);

// /tokenize, /detokenize and /tokenizer_info.
void AddTextRoutes(const GenerationServices& services, Router& router);

// /v1/models, /health, /metrics and the page at /.
void AddInfoRoutes(const GenerationServices& services, Router& router);

// /pause, /continue, /flush, /abort, /update_weights, and /health and /metrics once more.
void AddAdminRoutes(const GenerationServices& services, Router& router);

// The body as JSON, members in its order, which may be empty if `optional`. Frees the body.
absl::StatusOr<nlohmann::ordered_json> ParseBody(Exchange& exchange, bool optional = false);

// NotFound if a request asks for another model than the one that is served.
absl::Status CheckModelName(const GenerationServices& services, const std::string& asked);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_API_HANDLERS_H_
