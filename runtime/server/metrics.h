#ifndef ISOBIT_RUNTIME_SERVER_METRICS_H_
#define ISOBIT_RUNTIME_SERVER_METRICS_H_

// What Prometheus is told. Thread-safe.

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/engine/engine.h"

namespace isobit {

class Metrics {
 public:
  Metrics();

  void SetConnections(int64_t connections);
  void CountResponse(const std::string& path, int status);
  void CountGone(const std::string& reason);
  void CountRefused(const std::string& why);  // for want of room
  void ObserveFirstToken(std::chrono::duration<double> after);
  void ObserveGeneration(std::chrono::duration<double> duration, int64_t tokens);

  // All metrics in Prometheus' text format, with the engine's counts as they are now.
  std::string AsText(const Engine& engine) const;

 private:
  prometheus::Registry registry_;
  prometheus::Gauge& connections_;
  prometheus::Family<prometheus::Counter>& responses_;
  prometheus::Family<prometheus::Counter>& gone_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& generation_seconds_;
  prometheus::Histogram& generation_tokens_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_METRICS_H_
