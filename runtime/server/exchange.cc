#include "runtime/server/exchange.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "runtime/server/connection.h"

namespace isobit {

const char* GoneReasonName(GoneReason reason) {
  switch (reason) {
    case GoneReason::kDisconnected:
      return "disconnected";
    case GoneReason::kTooSlow:
      return "too-slow";
    case GoneReason::kTimedOut:
      return "timed-out";
    case GoneReason::kShutDown:
      return "shut-down";
  }
  return "";
}

Reservation Reservation::Make(std::atomic<int64_t>& count, int64_t bytes, int64_t limit) {
  Reservation made;
  if (count.fetch_add(bytes) + bytes > limit) {
    count.fetch_sub(bytes);
    return made;
  }
  made.count_ = &count;
  made.bytes_ = bytes;
  return made;
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  Release();
  count_ = std::exchange(other.count_, nullptr);
  bytes_ = other.bytes_;
  return *this;
}

void Reservation::Release() {
  if (count_ != nullptr) std::exchange(count_, nullptr)->fetch_sub(bytes_);
}

Exchange::Exchange(HttpRequest request, Reservation body, std::shared_ptr<Connection> connection,
                   uint64_t serial, NetworkExecutor executor)
    : request_(std::move(request)),
      body_(std::move(body)),
      connection_(std::move(connection)),
      serial_(serial),
      executor_(std::move(executor)) {}

Exchange::~Exchange() {
  if (!answered_) Send(ErrorResponse(500, "internal", "the request was not answered"));
}

void Exchange::ReleaseBody() {
  request_.body = std::string();
  body_.Release();
}

void Exchange::Send(HttpResponse response) {
  if (answered_.exchange(true)) return;
  asio::post(executor_, [connection = connection_, serial = serial_,
                         response = std::move(response)] { connection->Send(serial, response); });
}

void Exchange::Post(std::function<void()> task) { asio::post(executor_, std::move(task)); }

void Exchange::OnGone(std::function<void(GoneReason)> callback) {
  asio::post(executor_, [connection = connection_, serial = serial_,
                         callback = std::move(callback)]() mutable {
    connection->OnGone(serial, std::move(callback));
  });
}

void Exchange::Note(std::string words) {
  asio::post(executor_, [connection = connection_, serial = serial_, words = std::move(words)] {
    connection->Note(serial, words);
  });
}

void Exchange::StartStream(const HttpResponse& head) {
  if (!answered_.exchange(true)) connection_->StartStream(serial_, head);
}
void Exchange::Write(std::string_view data) { connection_->Write(serial_, data); }
void Exchange::EndStream(std::string_view last_data) { connection_->EndStream(serial_, last_data); }

}  // namespace isobit
