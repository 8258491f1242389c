#ifndef ISOBIT_RUNTIME_SERVER_SERVER_OPTIONS_H_
#define ISOBIT_RUNTIME_SERVER_SERVER_OPTIONS_H_

// What a server is told at its start. Every resource that a client can use up has a limit here.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/model/model.h"

namespace isobit {

struct ServerLimits {
  int64_t max_connections = 2048;  // more are told to come back
  int64_t max_waiting = 1024;      // sequences beyond those that can run; more get 429
  int64_t max_header_bytes = 16 << 10;
  int64_t max_body_bytes = 4 << 20;       // of one request; at most kMaxRequestBytes
  int64_t max_bodies_bytes = 256 << 20;   // of all requests that are being read
  int64_t max_unsent_bytes = 4 << 20;     // of a stream whose client does not read; then it is cut
  int64_t max_logprobs = 20;              // alternatives a position
  int64_t max_answer_logprobs = 1 << 20;  // of an answer that is no stream, alternatives included
  int64_t max_stops = 64;                 // stop texts, stop ids
  int64_t max_logit_bias = 1024;          // entries

  std::chrono::milliseconds idle_timeout = std::chrono::seconds(60);    // between two requests
  std::chrono::milliseconds header_timeout = std::chrono::seconds(10);  // first to last byte
  std::chrono::milliseconds body_timeout = std::chrono::seconds(60);
  std::chrono::milliseconds write_timeout = std::chrono::seconds(30);    // without progress
  std::chrono::milliseconds request_timeout = std::chrono::minutes(10);  // request to last byte
  std::chrono::milliseconds drain_timeout = std::chrono::seconds(30);    // of Shutdown
};

struct ServerOptions {
  std::string address = "127.0.0.1";
  int port = 8000;  // 0: one that is free
  // A second address for pausing, flushing, aborting and new weights. Empty: there is none.
  std::string admin_address = "";
  int admin_port = 0;

  std::string model_name;             // what requests call the model
  std::string build = "isobit";       // for fingerprints
  std::vector<std::string> api_keys;  // none: everybody may ask
  bool log_prompts = false;           // log lines are without what was asked, unless wanted
  ServerLimits limits;

  // One line a request and a few at start and end. May be empty; any thread.
  std::function<void(std::string_view line)> log = nullptr;
  // Reads new weights of the same model. Empty: they can't be updated.
  std::function<absl::StatusOr<std::unique_ptr<Model>>(const std::string& path)> load_model =
      nullptr;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_SERVER_OPTIONS_H_
