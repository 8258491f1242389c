#include "runtime/server/network.h"

#include <random>

#include "absl/strings/str_format.h"
#include "runtime/server/connection.h"

namespace isobit {

std::string Network::NewRequestId() {
  static const uint32_t of_process = std::random_device()();
  static std::atomic<uint64_t> counter = 0;
  return absl::StrFormat("req-%08x-%06d", of_process, ++counter);
}

void Network::Add(std::shared_ptr<Connection> connection) {
  connections_.insert(std::move(connection));
  metrics_.SetConnections(connections());
  const std::lock_guard lock(mutex_);
  connected_ = connections_.size();
}

void Network::Remove(const std::shared_ptr<Connection>& connection) {
  connections_.erase(connection);
  metrics_.SetConnections(connections());
  const std::lock_guard lock(mutex_);
  connected_ = connections_.size();
  if (connected_ == 0) empty_.notify_all();
}

void Network::CloseIdle() {
  // Copied: a connection that closes leaves the set.
  for (const auto& connection : std::set(connections_)) connection->CloseIfIdle();
}

void Network::CloseAll() {
  for (const auto& connection : std::set(connections_)) connection->Gone(GoneReason::kShutDown);
}

bool Network::WaitUntilEmpty(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, most, [this] { return connected_ == 0; });
}

}  // namespace isobit
