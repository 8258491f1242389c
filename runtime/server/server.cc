#include "runtime/server/server.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/api/request_json.h"
#include "runtime/server/api_handlers.h"
#include "runtime/server/generation.h"
#include "runtime/server/listener.h"
#include "runtime/server/metrics.h"
#include "runtime/server/network.h"
#include "runtime/server/router.h"

namespace isobit {
namespace {

absl::Status CheckLimit(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be in [", low, ", ", high, "], got ", value));
}

absl::Status CheckOptions(const ServerOptions& options) {
  const ServerLimits& limits = options.limits;
  constexpr int64_t kMany = int64_t{1} << 40;
  absl::Status status = CheckLimit("max-connections", limits.max_connections, 1, 1 << 20);
  status.Update(CheckLimit("max-waiting", limits.max_waiting, 0, 1 << 20));
  status.Update(CheckLimit("max-header-bytes", limits.max_header_bytes, 256, 1 << 20));
  status.Update(CheckLimit("max-body-bytes", limits.max_body_bytes, 1, kMaxRequestBytes));
  status.Update(
      CheckLimit("max-bodies-bytes", limits.max_bodies_bytes, limits.max_body_bytes, kMany));
  status.Update(CheckLimit("max-unsent-bytes", limits.max_unsent_bytes, 1024, kMany));
  status.Update(CheckLimit("max-logprobs", limits.max_logprobs, 0, 1 << 20));
  status.Update(CheckLimit("max-answer-logprobs", limits.max_answer_logprobs, 0, kMany));
  for (const auto& [name, time] : {std::pair{"idle-timeout", limits.idle_timeout},
                                   {"header-timeout", limits.header_timeout},
                                   {"body-timeout", limits.body_timeout},
                                   {"write-timeout", limits.write_timeout},
                                   {"request-timeout", limits.request_timeout},
                                   {"drain-timeout", limits.drain_timeout}}) {
    status.Update(CheckLimit(name, time.count(), 0, int64_t{1} << 40));
  }
  if (std::ranges::any_of(options.api_keys, &std::string::empty)) {
    status.Update(absl::InvalidArgumentError("an API key must not be empty"));
  }
  return status;
}

}  // namespace

class Server::Impl {
 public:
  Impl(Engine& engine, ServerOptions options)
      : options_(std::move(options)),
        network_(options_, metrics_),
        generations_(engine.options().max_num_seqs + options_.limits.max_waiting),
        services_{engine, network_, generations_} {
    AddGenerationRoutes(services_, public_);
    AddTextRoutes(services_, public_);
    AddInfoRoutes(services_, public_);
    AddAdminRoutes(services_, admin_);
  }

  ~Impl() {
    if (!thread_.joinable()) return;
    network_.StartDraining();
    OnNetwork([this] {
      CloseListeners();
      network_.CloseAll();
    });
    generations_.AbortAll();
    generations_.WaitUntilEmpty();
    network_.workers().join();
    network_.update_worker().join();
    // The network thread ends when nothing is left to be done.
    work_.reset();
    thread_.join();
  }

  absl::Status Start() {
    absl::StatusOr<std::shared_ptr<Listener>> opened =
        Listener::Open(network_, public_, options_.address, options_.port);
    if (!opened.ok()) return opened.status();
    listener_ = *std::move(opened);
    if (!options_.admin_address.empty()) {
      opened = Listener::Open(network_, admin_, options_.admin_address, options_.admin_port);
      if (!opened.ok()) return opened.status();
      admin_listener_ = *std::move(opened);
      admin_listener_->Accept();
    }
    listener_->Accept();
    thread_ = std::thread([this] { network_.context().run(); });
    return absl::OkStatus();
  }

  bool Shutdown() {
    network_.StartDraining();
    OnNetwork([this] {
      CloseListeners();
      network_.CloseIdle();
    });
    const bool drained = network_.WaitUntilEmpty(options_.limits.drain_timeout);
    if (!drained) OnNetwork([this] { network_.CloseAll(); });
    generations_.AbortAll();
    generations_.WaitUntilEmpty();
    return drained;
  }

  int port() const { return listener_->port(); }
  int admin_port() const { return admin_listener_ == nullptr ? 0 : admin_listener_->port(); }

 private:
  // Runs `task` on the network thread and waits for it.
  void OnNetwork(const std::function<void()>& task) {
    std::promise<void> done;
    asio::post(network_.context(), [&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  void CloseListeners() {
    listener_->Close();
    if (admin_listener_ != nullptr) admin_listener_->Close();
  }

  const ServerOptions options_;
  Metrics metrics_;
  Network network_;
  Generations generations_;
  const GenerationServices services_;
  Router public_, admin_;
  std::shared_ptr<Listener> listener_, admin_listener_;
  asio::executor_work_guard<NetworkExecutor> work_{network_.context().get_executor()};
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Engine& engine, ServerOptions options) {
  if (absl::Status s = CheckOptions(options); !s.ok()) return s;
  if (options.model_name.empty()) options.model_name = engine.model().config().name;
  auto impl = std::make_unique<Impl>(engine, std::move(options));
  if (absl::Status s = impl->Start(); !s.ok()) return s;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
int Server::port() const { return impl_->port(); }
int Server::admin_port() const { return impl_->admin_port(); }
bool Server::Shutdown() { return impl_->Shutdown(); }

}  // namespace isobit
