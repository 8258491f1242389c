// isobit serve: the model behind an HTTP address, with OpenAI's API.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/server/server.h"
#include "tools/isobit/command.h"
#include "tools/isobit/event.h"
#include "tools/isobit/log.h"
#include "tools/isobit/model_options.h"
#include "tools/isobit/version.h"

namespace isobit {
namespace {

struct ServeOptions {
  ModelOptions model;
  ServerOptions server;
  std::string api_key_file;
  std::string admin;  // "127.0.0.1:9000"
};

// Keys, one a line.
absl::Status ReadKeys(const std::string& path, std::vector<std::string>& keys) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read --api-key-file ", path));
  const size_t before = keys.size();
  for (std::string line; std::getline(file, line);) {
    absl::StripAsciiWhitespace(&line);
    if (!line.empty()) keys.push_back(line);
  }
  // An empty file must not open the server to everybody.
  if (keys.size() > before) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--api-key-file ", path, " holds no key"));
}

// "HOST:PORT"; an IPv6 host may stand in brackets.
absl::Status ReadAdminAddress(const std::string& text, ServerOptions& options) {
  if (text.empty()) return absl::OkStatus();
  const size_t colon = text.rfind(':');
  int port = -1;
  if (colon != std::string::npos && colon > 0 &&
      CLI::detail::lexical_cast(text.substr(colon + 1), port) && port >= 0 && port <= 65535) {
    options.admin_address = text.substr(0, colon);
    if (options.admin_address.front() == '[' && options.admin_address.back() == ']') {
      options.admin_address = options.admin_address.substr(1, options.admin_address.size() - 2);
    }
    options.admin_port = port;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--admin must be HOST:PORT, got ", text));
}

// A connection is a descriptor, and the usual limit is low.
void RaiseDescriptorLimit(int64_t connections) {
  constexpr int64_t kOthers = 64;
  const auto wanted = static_cast<rlim_t>(connections + kOthers);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
    LogWarning(absl::StrCat("the system allows ", limit.rlim_cur, " open files, --max-connections ",
                            connections, " wants ", wanted));
  }
}

std::string FileStem(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

// Where it can be reached, for people and scripts.
void PrintAddress(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  std::printf("http://%s%s%s:%d\n", ipv6 ? "[" : "", host.c_str(), ipv6 ? "]" : "", port);
  std::fflush(stdout);
}

ExitCode Fail(const absl::Status& status) {
  LogError(status);
  return ExitCodeOf(status);
}

ExitCode RunServe(ServeOptions options) {
  ServerOptions& server_options = options.server;
  if (const char* key = std::getenv("ISOBIT_API_KEY"); key != nullptr && *key != '\0') {
    server_options.api_keys.push_back(key);
  }
  if (!options.api_key_file.empty()) {
    const absl::Status status = ReadKeys(options.api_key_file, server_options.api_keys);
    if (!status.ok()) return Fail(status);
  }
  if (const absl::Status s = ReadAdminAddress(options.admin, server_options); !s.ok()) {
    return Fail(s);
  }
  ExitCode exit_code;
  const std::unique_ptr<Engine> engine = StartEngine(options.model, exit_code);
  if (engine == nullptr) return exit_code;
  RaiseDescriptorLimit(server_options.limits.max_connections);

  server_options.build = kBuildName;
  if (server_options.model_name.empty()) server_options.model_name = FileStem(options.model.model);
  server_options.log = [](std::string_view line) { LogInfo(line); };
  server_options.load_model =
      [model_options =
           options.model](const std::string& path) -> absl::StatusOr<std::unique_ptr<Model>> {
    absl::StatusOr<std::unique_ptr<Backend>> backend = CreateProvenBackend(model_options);
    if (!backend.ok()) return backend.status();
    return Model::Load(path, *std::move(backend), model_options.engine.max_model_len);
  };
  CatchInterrupts();
  const bool everybody = server_options.api_keys.empty();
  const std::string host = server_options.address, admin_host = server_options.admin_address;
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(*engine, std::move(server_options));
  if (!server.ok()) return Fail(server.status());
  PrintAddress(host, (*server)->port());
  if ((*server)->admin_port() != 0) PrintAddress(admin_host, (*server)->admin_port());
  if (everybody) {
    if (!IsLoopback(host)) {
      LogWarning(absl::StrCat("everybody who reaches ", host, " may ask: there is no API key"));
    }
    if ((*server)->admin_port() != 0 && !IsLoopback(admin_host)) {
      LogWarning(absl::StrCat("everybody who reaches ", admin_host,
                              " may administer the server: there is no API key"));
    }
  }

  WaitForAny({InterruptDescriptor()});
  LogInfo("shutting down: running requests are finished");
  if (!(*server)->Shutdown()) LogWarning("requests were cancelled: the drain timeout was over");
  return ReportAudits(*engine);
}

void AddLimit(CLI::App& command, const char* name, int64_t& value, const char* help) {
  command.add_option(name, value, help)
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str()
      ->group("Limits");
}

// Seconds on the command line.
void AddTimeout(CLI::App& command, const char* name, std::chrono::milliseconds& value,
                const char* help) {
  const auto set = [&value](const double& seconds) {
    value = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  };
  command.add_option_function<double>(name, set, help)
      ->check(CLI::Range(0.001, 1e6))
      ->default_str(absl::StrCat(static_cast<double>(value.count()) / 1000))
      ->group("Limits");
}

void AddLimits(CLI::App& command, ServerLimits& limits) {
  AddLimit(command, "--max-connections", limits.max_connections, "More get 503");
  AddLimit(command, "--max-waiting", limits.max_waiting,
           "Sequences that wait for those that run; more get 429");
  AddLimit(command, "--max-header-bytes", limits.max_header_bytes, "Of one request");
  AddLimit(command, "--max-body-bytes", limits.max_body_bytes, "Of one request");
  AddLimit(command, "--max-bodies-bytes", limits.max_bodies_bytes,
           "Of all requests that are being read");
  AddLimit(command, "--max-unsent-bytes", limits.max_unsent_bytes,
           "Of a stream whose client does not read; then it is cut");
  AddLimit(command, "--max-logprobs", limits.max_logprobs, "Alternatives a position");
  AddLimit(command, "--max-answer-logprobs", limits.max_answer_logprobs,
           "Of an answer that is no stream, alternatives included");
  AddTimeout(command, "--idle-timeout", limits.idle_timeout, "Seconds between two requests");
  AddTimeout(command, "--header-timeout", limits.header_timeout, "Seconds for a header");
  AddTimeout(command, "--body-timeout", limits.body_timeout, "Seconds for a body");
  AddTimeout(command, "--write-timeout", limits.write_timeout,
             "Seconds in which a client reads nothing");
  AddTimeout(command, "--request-timeout", limits.request_timeout,
             "Seconds from a request to the end of its answer");
  AddTimeout(command, "--drain-timeout", limits.drain_timeout,
             "Seconds for running requests after SIGTERM");
}

}  // namespace

Command AddServe(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve",
                         "Serve the model over HTTP with OpenAI's API (runtime/server/SERVER.md). "
                         "Prints its address when it is "
                         "ready; ends after SIGTERM or Ctrl-C once running requests are finished.");
  const auto options = std::make_shared<ServeOptions>();
  options->model.log_level = "info";
  ServerOptions& server = options->server;
  const std::string group = "Server";
  command->add_option("--host", server.address, "IP address to listen on")
      ->capture_default_str()
      ->group(group);
  command->add_option("--port", server.port, "Port to listen on (0: one that is free)")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--served-model-name", server.model_name,
                   "What requests call the model (default: the file's name)")
      ->group(group);
  command
      ->add_option("--api-key", server.api_keys,
                   "A key that requests must bring; may be given more than once")
      ->group(group);
  command
      ->add_option("--api-key-file", options->api_key_file,
                   "Keys, one a line; others can't see them in the process list")
      ->group(group);
  command
      ->add_option("--admin", options->admin,
                   "HOST:PORT for pausing, flushing, aborting and new weights (default: none)")
      ->group(group);
  command->add_flag("--log-prompts", server.log_prompts, "Log what was asked, too")->group(group);
  AddLimits(*command, server.limits);
  AddModelOptions(*command, options->model);
  return {command, [options] { return RunServe(*options); }};
}

}  // namespace isobit
