#ifndef ISOBIT_RUNTIME_SERVER_EXCHANGE_H_
#define ISOBIT_RUNTIME_SERVER_EXCHANGE_H_

// One request and the answer to it, as a handler sees them.
//
// Thread safety: Send, OnGone, Note, ReleaseBody and Post may be called from any thread; what makes
// a stream, on the network thread only (inside Post). A handler that lets go of its exchange
// without an answer has failed: the client gets status 500.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/server/asio.h"
#include "runtime/server/http.h"

namespace isobit {

class Connection;

enum class GoneReason {
  kDisconnected,  // the client closed its side, or the network broke
  kTooSlow,       // it does not read what it gets
  kTimedOut,      // the request took too long
  kShutDown,
};
const char* GoneReasonName(GoneReason reason);

// Bytes that are counted against a limit while this lives.
class Reservation {
 public:
  Reservation() = default;
  // Fails (is empty) if the count would pass `limit`.
  static Reservation Make(std::atomic<int64_t>& count, int64_t bytes, int64_t limit);
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  explicit operator bool() const { return count_ != nullptr; }
  void Release();

 private:
  std::atomic<int64_t>* count_ = nullptr;
  int64_t bytes_ = 0;
};

class Exchange {
 public:
  // `serial`: of the request on its connection.
  Exchange(HttpRequest request, Reservation body, std::shared_ptr<Connection> connection,
           uint64_t serial, NetworkExecutor executor);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  const HttpRequest& request() const { return request_; }
  // Frees the body, once it was read. REQUIRES: nobody else looks at it.
  void ReleaseBody();

  // Answers, once.
  void Send(HttpResponse response);

  // Runs `task` on the network thread.
  void Post(std::function<void()> task);
  // Calls back on the network thread if the client goes away before the answer is complete, or has
  // gone already. One callback an exchange.
  void OnGone(std::function<void(GoneReason)> callback);
  // Adds words to the request's line in the log.
  void Note(std::string words);

  // ---- On the network thread
  void StartStream(const HttpResponse& head);
  void Write(std::string_view data);
  void EndStream(std::string_view last_data);

 private:
  HttpRequest request_;
  Reservation body_;
  const std::shared_ptr<Connection> connection_;
  const uint64_t serial_;
  const NetworkExecutor executor_;
  std::atomic<bool> answered_ = false;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_EXCHANGE_H_
