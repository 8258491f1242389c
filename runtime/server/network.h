#ifndef ISOBIT_RUNTIME_SERVER_NETWORK_H_
#define ISOBIT_RUNTIME_SERVER_NETWORK_H_

// What all connections of a server share: the network thread, the workers that read requests, the
// limits, and who is connected.
//
// Connections live on the network thread and never wait. Workers do what takes time: parsing,
// tokenizing, formatting.

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "runtime/server/asio.h"
#include "runtime/server/metrics.h"
#include "runtime/server/server_options.h"

namespace isobit {

class Connection;

class Network {
 public:
  static constexpr int kWorkers = 2;

  Network(const ServerOptions& options, Metrics& metrics)
      : options_(options), metrics_(metrics), workers_(kWorkers) {}

  const ServerOptions& options() const { return options_; }
  const ServerLimits& limits() const { return options_.limits; }
  Metrics& metrics() { return metrics_; }
  asio::io_context& context() { return context_; }
  asio::thread_pool& workers() { return workers_; }
  // For new weights: they take long, one after the other.
  asio::thread_pool& update_worker() { return update_worker_; }
  std::atomic<int64_t>& bodies_bytes() { return bodies_bytes_; }
  // Unique in this process, unlikely to be met again.
  std::string NewRequestId();
  void Log(std::string_view line) const {
    if (options_.log) options_.log(line);
  }

  // From then on requests are refused and connections close after their answer.
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }

  // ---- On the network thread
  void Add(std::shared_ptr<Connection> connection);
  void Remove(const std::shared_ptr<Connection>& connection);
  int64_t connections() const { return static_cast<int64_t>(connections_.size()); }
  // Those without a request, or all.
  void CloseIdle();
  void CloseAll();

  // ---- From any other thread: waits until nobody is connected. False if the time was over first.
  bool WaitUntilEmpty(std::chrono::milliseconds most);

 private:
  const ServerOptions& options_;
  Metrics& metrics_;
  asio::io_context context_{1};
  asio::thread_pool workers_;
  asio::thread_pool update_worker_{1};
  std::atomic<int64_t> bodies_bytes_ = 0;
  std::atomic<bool> draining_ = false;
  std::set<std::shared_ptr<Connection>> connections_;

  std::mutex mutex_;
  std::condition_variable empty_;
  size_t connected_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_NETWORK_H_
