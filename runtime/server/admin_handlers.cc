// What an administrator may do, on an address of its own.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/api/json_writer.h"
#include "runtime/json/strict_json.h"
#include "runtime/server/api_handlers.h"

namespace isobit {
namespace {

using json = nlohmann::ordered_json;

// State after a verb.
HttpResponse StateOf(const GenerationServices& services) {
  const EngineStats stats = services.engine.Stats();
  JsonWriter out;
  out.BeginObject().Field("paused", stats.paused);
  out.Field("running", stats.running).Field("waiting", stats.waiting);
  out.Field("kv_pages_cached", stats.kv_pages_cached);
  out.Field("model_digest", services.engine.shared_model()->digest().ToHex());
  return {.body = out.EndObject().Take()};
}

absl::Status ReadNothing(const json& body) {
  if (!body.is_object()) return JsonTypeError("a request", "a JSON object", body);
  if (body.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unknown field ", DescribeJson(body.begin().key())));
}

// {"request_id": "..."} or {"all": true}
absl::StatusOr<int64_t> Abort(Generations& generations, const json& body) {
  if (body.is_object() && body.size() == 1) {
    if (const auto id = body.find("request_id"); id != body.end()) {
      std::string text;
      if (absl::Status s = ReadJson(*id, "request_id", text); !s.ok()) return s;
      return generations.Abort(text);
    }
    if (const auto all = body.find("all"); all != body.end() && *all == true) {
      return generations.AbortAll();
    }
  }
  return absl::InvalidArgumentError(R"(give {"request_id": "..."} or {"all": true})");
}

// {"path": "..."}
absl::Status UpdateWeights(const GenerationServices& services, const json& body) {
  const auto& load = services.network.options().load_model;
  if (!load) return absl::UnimplementedError("this server can't load weights");
  if (!body.is_object() || body.size() != 1 || !body.contains("path")) {
    return absl::InvalidArgumentError(R"(give {"path": "a model file"})");
  }
  std::string path;
  if (absl::Status s = ReadJson(body["path"], "path", path); !s.ok()) return s;
  absl::StatusOr<std::unique_ptr<Model>> model = load(path);
  if (!model.ok()) return model.status();
  return services.engine.ReplaceModel(*std::move(model));
}

// A verb that is one call of the engine and takes no parameters.
template <void (Engine::*kAction)()>
HttpResponse DoEngine(const GenerationServices& services, const json& body) {
  if (absl::Status s = ReadNothing(body); !s.ok()) return ErrorResponse(s);
  (services.engine.*kAction)();
  return StateOf(services);
}

HttpResponse DoAbort(const GenerationServices& services, const json& body) {
  const absl::StatusOr<int64_t> aborted = Abort(services.generations, body);
  if (!aborted.ok()) return ErrorResponse(aborted.status());
  JsonWriter out;
  return {.body = out.BeginObject().Field("aborted", *aborted).EndObject().Take()};
}

HttpResponse DoUpdateWeights(const GenerationServices& services, const json& body) {
  if (absl::Status s = UpdateWeights(services, body); !s.ok()) return ErrorResponse(s);
  return StateOf(services);
}

}  // namespace

void AddAdminRoutes(const GenerationServices& services, Router& router) {
  const auto add = [&](const char* path, bool waits, auto verb) {
    router.Add({.method = "POST",
                .path = path,
                .waits = waits,
                .handler = [services, verb](const std::shared_ptr<Exchange>& exchange) {
                  const absl::StatusOr<json> body = ParseBody(*exchange, /*optional=*/true);
                  exchange->Send(body.ok() ? verb(services, *body) : ErrorResponse(body.status()));
                }});
  };
  add("/pause", false, DoEngine<&Engine::Pause>);
  add("/continue", false, DoEngine<&Engine::Resume>);
  add("/flush", false, DoEngine<&Engine::FlushPrefixCache>);
  add("/abort", false, DoAbort);
  // New weights wait for old requests, which must be answered and can be aborted meanwhile.
  add("/update_weights", true, DoUpdateWeights);
  AddInfoRoutes(services, router);
}

}  // namespace isobit
