#include "runtime/server/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

#include "kernels/numerics/contract_version.h"

namespace isobit {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

const prometheus::Histogram::BucketBoundaries kSeconds = {
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500};
const prometheus::Histogram::BucketBoundaries kTokens = {1,   2,   5,    10,   20,   50,   100,
                                                         200, 500, 1000, 2000, 5000, 10000};

prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const char* name,
                                    const char* help,
                                    const prometheus::Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

prometheus::Family<prometheus::Counter>& AddCounters(prometheus::Registry& registry,
                                                     const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

// One value of the engine as a family of its own.
MetricFamily OfEngine(const char* name, const char* help, MetricType type, int64_t value) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      static_cast<double>(value);
  return family;
}

void AppendEngine(const EngineStats& s, std::vector<MetricFamily>& families) {
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    families.push_back(OfEngine(name, help, MetricType::Gauge, value));
  };
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    families.push_back(OfEngine(name, help, MetricType::Counter, value));
  };
  gauge("isobit_sequences_running", "Sequences in the present step.", s.running);
  gauge("isobit_sequences_waiting", "Sequences that wait for room.", s.waiting);
  gauge("isobit_paused", "1 while an administrator holds the engine.", s.paused ? 1 : 0);
  gauge("isobit_kv_pages", "Pages of the KV pool.", s.kv_pages);
  gauge("isobit_kv_pages_in_use", "Pages held by sequences.", s.kv_pages_in_use);
  gauge("isobit_kv_pages_cached", "Free pages kept for their prefix.", s.kv_pages_cached);
  counter("isobit_steps_total", "Steps computed.", s.steps);
  counter("isobit_preemptions_total", "Sequences that gave their pages back.", s.preemptions);
  counter("isobit_prompt_tokens_total", "Prompt tokens computed, recomputed ones included.",
          s.prompt_tokens);
  counter("isobit_prefix_cache_hit_tokens_total", "Tokens taken from the prefix cache instead.",
          s.cached_tokens);
  counter("isobit_generated_tokens_total", "Tokens drawn.", s.generated_tokens);
  counter("isobit_audits_total", "Finished choices computed again and compared.", s.audits);
  counter("isobit_audit_differences_total", "Of these, such that were not equal: never.",
          s.audit_differences);
}

// A constant 1 that says what runs, in its labels.
MetricFamily Info(const Model& model) {
  MetricFamily family =
      OfEngine("isobit_model_info", "The model that is served.", MetricType::Gauge, 1);
  family.metric.front().label = {{"contract", std::to_string(kContractVersion)},
                                 {"model_digest", model.digest().ToHex()}};
  return family;
}

}  // namespace

Metrics::Metrics()
    : connections_(prometheus::BuildGauge()
                       .Name("isobit_connections")
                       .Help("Open connections.")
                       .Register(registry_)
                       .Add({})),
      responses_(AddCounters(registry_, "isobit_http_responses_total",
                             "Answers by path and status; 499 if the client was gone.")),
      gone_(AddCounters(registry_, "isobit_clients_gone_total",
                        "Requests whose client did not get the whole answer.")),
      refused_(AddCounters(registry_, "isobit_requests_refused_total",
                           "Requests and connections that met a limit.")),
      first_token_seconds_(AddHistogram(registry_, "isobit_time_to_first_token_seconds",
                                        "From a request's arrival to its first token.", kSeconds)),
      generation_seconds_(AddHistogram(registry_, "isobit_generation_seconds",
                                       "From a request's arrival to its last token.", kSeconds)),
      generation_tokens_(AddHistogram(registry_, "isobit_generation_tokens",
                                      "Tokens drawn a request.", kTokens)) {}

void Metrics::SetConnections(int64_t connections) {
  connections_.Set(static_cast<double>(connections));
}

void Metrics::CountResponse(const std::string& path, int status) {
  responses_.Add({{"path", path}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::CountGone(const std::string& reason) { gone_.Add({{"reason", reason}}).Increment(); }

void Metrics::CountRefused(const std::string& why) { refused_.Add({{"why", why}}).Increment(); }

void Metrics::ObserveFirstToken(std::chrono::duration<double> after) {
  first_token_seconds_.Observe(after.count());
}

void Metrics::ObserveGeneration(std::chrono::duration<double> duration, int64_t tokens) {
  generation_seconds_.Observe(duration.count());
  generation_tokens_.Observe(static_cast<double>(tokens));
}

std::string Metrics::AsText(const Engine& engine) const {
  std::vector<MetricFamily> families = registry_.Collect();
  AppendEngine(engine.Stats(), families);
  families.push_back(Info(*engine.shared_model()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace isobit
