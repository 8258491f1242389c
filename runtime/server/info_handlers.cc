// /v1/models, /health, /metrics and the page at /.

#include <memory>
#include <string>

#include "kernels/numerics/contract_version.h"
#include "runtime/api/json_writer.h"
#include "runtime/api/reply_format.h"
#include "runtime/server/api_handlers.h"
#include "runtime/server/page.h"

namespace isobit {
namespace {

void WriteModel(const GenerationServices& services, JsonWriter& out) {
  const ServerOptions& options = services.network.options();
  const Digest digest = services.engine.shared_model()->digest();
  out.BeginObject().Field("id", options.model_name).Field("object", "model");
  // The model file says nothing of when it was made.
  out.Field("created", 0).Field("owned_by", "isobit");
  out.Field("max_model_len", services.engine.options().max_model_len);
  out.Field("contract", kContractVersion).Field("model_digest", digest.ToHex());
  out.Field("system_fingerprint", SystemFingerprint(options.build, digest));
  out.EndObject();
}

void ListModels(const GenerationServices& services, Exchange& exchange) {
  JsonWriter out;
  out.BeginObject().Field("object", "list").Key("data").BeginArray();
  WriteModel(services, out);
  exchange.Send({.body = out.EndArray().EndObject().Take()});
}

void ShowModel(const GenerationServices& services, Exchange& exchange) {
  const std::string name =
      PercentDecode(exchange.request().path.substr(std::string("/v1/models/").size()));
  if (name != services.network.options().model_name) {
    return exchange.Send(ErrorResponse(absl::NotFoundError("this model is not served here")));
  }
  JsonWriter out;
  WriteModel(services, out);
  exchange.Send({.body = out.Take()});
}

void Health(const GenerationServices& services, Exchange& exchange) {
  const absl::Status status = services.engine.status();
  if (!status.ok()) {
    return exchange.Send(ErrorResponse(503, "engine_failed", std::string(status.message())));
  }
  exchange.Send({.body = R"({"status":"ok"})"});
}

void ShowMetrics(const GenerationServices& services, Exchange& exchange) {
  exchange.Send({.body = services.network.metrics().AsText(services.engine),
                 .content_type = "text/plain; version=0.0.4; charset=utf-8"});
}

void ShowPage(const GenerationServices&, Exchange& exchange) {
  exchange.Send({.body = std::string(kPage),
                 .content_type = "text/html; charset=utf-8",
                 .headers = {{"Content-Security-Policy",
                              "default-src 'none'; connect-src 'self'; img-src data:; "
                              "script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                             {"Cache-Control", "no-cache"}}});
}

void AddGet(const GenerationServices& services, Router& router, const char* path, bool open,
            void (*handler)(const GenerationServices&, Exchange&)) {
  router.Add({.method = "GET",
              .path = path,
              .open = open,
              .handler = [services, handler](const std::shared_ptr<Exchange>& exchange) {
                handler(services, *exchange);
              }});
}

}  // namespace

void AddInfoRoutes(const GenerationServices& services, Router& router) {
  AddGet(services, router, "/health", true, Health);
  AddGet(services, router, "/metrics", false, ShowMetrics);
  AddGet(services, router, "/v1/models", false, ListModels);
  AddGet(services, router, "/v1/models/", false, ShowModel);
  AddGet(services, router, "/", true, ShowPage);
}

}  // namespace isobit
