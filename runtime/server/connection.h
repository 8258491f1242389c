#ifndef ISOBIT_RUNTIME_SERVER_CONNECTION_H_
#define ISOBIT_RUNTIME_SERVER_CONNECTION_H_

// One HTTP/1.1 connection: reads a request, hands it to a worker, writes the answer, and so on.
//
//   idle -> reading -> answering -> idle ...       or, at the end,  -> lingering -> closed
//
// While an answer is being made the socket is read from, so that a client that goes away is noticed
// and its request is cancelled. A client that only closes its sending side counts as gone, as with
// most servers. On the network thread only.

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/server/asio.h"
#include "runtime/server/exchange.h"
#include "runtime/server/http.h"
#include "runtime/server/network.h"
#include "runtime/server/router.h"

namespace isobit {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `network` and `router` outlive it.
  Connection(Socket socket, Network& network, const Router& router);

  void Start();
  // Closes it if no request is being read or answered.
  void CloseIfIdle();
  // Closes it whatever it is doing.
  void Gone(GoneReason reason);

  // ---- For Exchange; calls for a request that is not the present one are ignored.
  void Send(uint64_t serial, const HttpResponse& response);
  void StartStream(uint64_t serial, const HttpResponse& head);
  void Write(uint64_t serial, std::string_view data);
  void EndStream(uint64_t serial, std::string_view last_data);
  void OnGone(uint64_t serial, std::function<void(GoneReason)> callback);
  void Note(uint64_t serial, std::string_view words);

 private:
  enum class State { kIdle, kReading, kAnswering, kLingering, kClosed };
  using Error = boost::system::error_code;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // Reading.
  void WaitForRequest();
  void Watch();
  void OnWatched(const Error& error, size_t bytes);
  void ReadHeader();
  void OnHeader(const Error& error);
  void RefuseBroken(const Error& error);
  void BeginRequest();
  std::optional<HttpResponse> CheckHeader(const Route* route, const std::string& allowed);
  void ReadBody();
  void OnBody(const Error& error);
  void Dispatch();
  std::string Header(boost::beast::http::field field) const;

  // Answering.
  bool MayAnswer(uint64_t serial) const;
  void Refuse(HttpResponse response);
  void TimeOut();
  void StartWriting();
  void WriteSome();
  void OnWritten(const Error& error, size_t bytes);
  void FinishRequest();
  void LogRequest(std::string_view outcome);

  // Ending.
  void TellGone(GoneReason reason);
  void Linger();
  void Close();

  Network& network_;
  const Router& router_;
  Socket socket_;
  State state_ = State::kIdle;
  boost::beast::flat_buffer buffer_;
  bool reading_ = false;  // Watch is under way
  size_t lingered_bytes_ = 0;
  Deadline read_deadline_, write_deadline_, request_deadline_;

  // The present request.
  std::optional<Parser> parser_;
  const Route* route_ = nullptr;
  Reservation body_;
  HttpRequest request_;
  uint64_t serial_ = 0;
  bool http_1_0_ = false;
  bool keep_alive_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::function<void(GoneReason)> on_gone_;
  std::optional<GoneReason> gone_;
  std::string notes_;

  // Its answer.
  int status_ = 0;  // 0: there is none yet
  bool streaming_ = false;
  bool complete_ = false;  // nothing is to be added
  std::string out_;        // to be sent
  std::string sending_;    // being sent, from sent_ on
  size_t sent_ = 0;
  bool writing_ = false;
  int64_t bytes_sent_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_CONNECTION_H_
