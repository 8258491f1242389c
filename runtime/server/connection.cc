#include "runtime/server/connection.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace isobit {
namespace {

namespace http = boost::beast::http;

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxEarlyBytes = 64 << 10;  // of a next request while one is being answered
constexpr int kSendBufferBytes = 256 << 10;
constexpr auto kLingerTime = std::chrono::seconds(2);

constexpr int kClientClosedRequest = 499;  // for logs, as nginx has it

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool IsHttpError(const boost::system::error_code& error) {
  return error.category() == make_error_code(http::error::bad_method).category();
}

bool IsJson(std::string_view content_type) {
  const std::string type =
      absl::AsciiStrToLower(std::string(content_type.substr(0, content_type.find(';'))));
  return absl::StripAsciiWhitespace(type) == "application/json";
}

// "Bearer abc" to "abc"; empty, which is no key, for what is not of this form.
std::string BearerToken(const std::string& authorization) {
  constexpr char kScheme[] = "Bearer ";
  constexpr size_t kSize = sizeof(kScheme) - 1;
  return absl::StartsWithIgnoreCase(authorization, kScheme) ? authorization.substr(kSize) : "";
}

// "https://host:1" to "host:1"
std::string_view HostOfOrigin(std::string_view origin) {
  const size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? origin : origin.substr(scheme + 3);
}

}  // namespace

Connection::Connection(Socket socket, Network& network, const Router& router)
    : network_(network),
      router_(router),
      socket_(std::move(socket)),
      buffer_(static_cast<size_t>(network.limits().max_header_bytes) + kMaxEarlyBytes + kReadBytes),
      read_deadline_(network.context().get_executor()),
      write_deadline_(network.context().get_executor()),
      request_deadline_(network.context().get_executor()) {}

void Connection::Start() {
  Error ignored;
  // Tokens are small and wanted at once.
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  // What waits for a slow reader waits here, where it is counted, and not in the system's memory.
  socket_.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
  WaitForRequest();
}

// ---- Reading

void Connection::WaitForRequest() {
  state_ = State::kIdle;
  if (network_.draining()) return Close();
  if (buffer_.size() > 0) {
    if (!reading_) return ReadHeader();
    // One reader at a time: OnWatched goes on.
    Error ignored;
    socket_.cancel(ignored);
    return;
  }
  read_deadline_.Set(network_.limits().idle_timeout,
                     [self = shared_from_this()] { self->Close(); });
  if (!reading_) Watch();
}

// Reads what comes, whether it is waited for or not.
void Connection::Watch() {
  reading_ = true;
  socket_.async_read_some(buffer_.prepare(kReadBytes),
                          [self = shared_from_this()](const Error& error, size_t bytes) {
                            self->OnWatched(error, bytes);
                          });
}

void Connection::OnWatched(const Error& error, size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error == asio::error::operation_aborted && state_ == State::kIdle) return ReadHeader();
  if (error) {
    if (state_ == State::kAnswering) return Gone(GoneReason::kDisconnected);
    return Close();
  }
  buffer_.commit(bytes);
  if (state_ == State::kLingering) {
    lingered_bytes_ += bytes;
    buffer_.consume(buffer_.size());
    if (std::cmp_greater(lingered_bytes_, network_.limits().max_body_bytes)) return Close();
    return Watch();
  }
  if (state_ == State::kIdle) return ReadHeader();
  // The next request came early. It waits; beyond the limit the client waits too.
  if (buffer_.size() < kMaxEarlyBytes) Watch();
}

void Connection::ReadHeader() {
  state_ = State::kReading;
  const ServerLimits& limits = network_.limits();
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(limits.max_header_bytes));
  parser_->body_limit(static_cast<uint64_t>(limits.max_body_bytes));
  read_deadline_.Set(limits.header_timeout, [self = shared_from_this()] { self->Close(); });
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const Error& error, size_t) { self->OnHeader(error); });
}

void Connection::OnHeader(const Error& error) {
  if (state_ == State::kClosed) return;
  BeginRequest();
  if (error) return RefuseBroken(error);
  const Router::Match match = router_.Find(request_.method, request_.path);
  if (std::optional<HttpResponse> refusal = CheckHeader(match.route, match.allowed)) {
    return Refuse(*std::move(refusal));
  }
  route_ = match.route;
  if (parser_->is_done()) return Dispatch();
  if (absl::EqualsIgnoreCase(Header(http::field::expect), "100-continue")) {
    out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    StartWriting();
  }
  ReadBody();
}

// Answers what is not HTTP, or closes if nobody is there to read it.
void Connection::RefuseBroken(const Error& error) {
  if (!IsHttpError(error) || error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    Close();
  } else if (error == http::error::body_limit) {
    Refuse(ErrorResponse(413, "body_too_large",
                         absl::StrCat("the body must be at most ", network_.limits().max_body_bytes,
                                      " bytes long")));
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    Refuse(ErrorResponse(431, "header_too_large",
                         absl::StrCat("the header must be at most ",
                                      network_.limits().max_header_bytes, " bytes long")));
  } else {
    Refuse(ErrorResponse(400, "bad_http", absl::StrCat("not valid HTTP: ", error.message())));
  }
}

// What is known of the request once its header was read, or as much of it as could be.
void Connection::BeginRequest() {
  ++serial_;
  route_ = nullptr;
  gone_.reset();
  begin_ = std::chrono::steady_clock::now();
  const auto& message = parser_->get();
  const std::string_view target = View(message.target());
  request_ = {.id = "",
              .method = std::string(View(message.method_string())),
              .path = std::string(target.substr(0, target.find('?'))),
              .body = ""};
  const auto id = message.find("X-Request-Id");
  const std::string_view wanted = id == message.end() ? "" : View(id->value());
  request_.id = IsRequestId(wanted) ? std::string(wanted) : network_.NewRequestId();
  http_1_0_ = message.version() < 11;
  keep_alive_ = parser_->is_header_done() && parser_->keep_alive();
}

std::string Connection::Header(http::field field) const {
  return std::string(View(parser_->get()[field]));
}

// What can be said against a request before its body is read.
std::optional<HttpResponse> Connection::CheckHeader(const Route* route,
                                                    const std::string& allowed) {
  const ServerOptions& options = network_.options();
  if (route == nullptr && allowed.empty()) {
    return ErrorResponse(404, "not_found", "there is nothing at this path");
  }
  if (route == nullptr) {
    HttpResponse response =
        ErrorResponse(405, "method_not_allowed", absl::StrCat("only ", allowed, " is known here"));
    response.headers.emplace_back("Allow", allowed);
    return response;
  }
  // A page of another site must not use a person's browser to ask a server on their machine.
  const std::string origin = Header(http::field::origin);
  if (!origin.empty() && HostOfOrigin(origin) != Header(http::field::host)) {
    return ErrorResponse(403, "foreign_origin", "pages of other sites can't ask here");
  }
  if (!route->open && !options.api_keys.empty()) {
    if (!IsOneOf(options.api_keys, BearerToken(Header(http::field::authorization)))) {
      HttpResponse response = ErrorResponse(401, "invalid_api_key", "a valid API key is needed");
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
  }
  if (network_.draining()) return BusyResponse(503, "shutting_down", "the server is shutting down");
  if (parser_->is_done()) return std::nullopt;
  if (!IsJson(Header(http::field::content_type))) {
    return ErrorResponse(415, "unsupported_media_type", "Content-Type must be application/json");
  }
  const int64_t most = network_.limits().max_body_bytes;
  const auto length = parser_->content_length();
  body_ = Reservation::Make(network_.bodies_bytes(), length ? static_cast<int64_t>(*length) : most,
                            network_.limits().max_bodies_bytes);
  if (!body_) return BusyResponse(503, "busy", "too many requests are being read");
  return std::nullopt;
}

void Connection::ReadBody() {
  read_deadline_.Set(network_.limits().body_timeout,
                     [self = shared_from_this()] { self->Close(); });
  http::async_read(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](const Error& error, size_t) { self->OnBody(error); });
}

void Connection::OnBody(const Error& error) {
  if (state_ == State::kClosed) return;
  if (error) return RefuseBroken(error);
  Dispatch();
}

void Connection::Dispatch() {
  state_ = State::kAnswering;
  read_deadline_.Clear();
  request_deadline_.Set(network_.limits().request_timeout,
                        [self = shared_from_this()] { self->TimeOut(); });
  HttpRequest request = request_;
  request.body = std::move(parser_->get().body());
  parser_.reset();
  auto exchange =
      std::make_shared<Exchange>(std::move(request), std::move(body_), shared_from_this(), serial_,
                                 network_.context().get_executor());
  asio::thread_pool& workers = route_->waits ? network_.update_worker() : network_.workers();
  asio::post(workers, [exchange = std::move(exchange), route = route_] {
    try {
      route->handler(exchange);
    } catch (const std::exception& error) {  // mostly no memory left; the client gets status 500
      exchange->Note(absl::StrCat("failed: ", error.what()));
    }
  });
  Watch();
}

// ---- Answering

bool Connection::MayAnswer(uint64_t serial) const {
  return state_ == State::kAnswering && serial == serial_ && !complete_;
}

// Answers before the request was read to its end: what is left of it is not looked at.
void Connection::Refuse(HttpResponse response) {
  state_ = State::kAnswering;
  read_deadline_.Clear();
  body_.Release();
  parser_.reset();
  keep_alive_ = false;
  Send(serial_, response);
}

void Connection::Send(uint64_t serial, const HttpResponse& response) {
  if (!MayAnswer(serial) || status_ != 0) return;
  status_ = response.status;
  complete_ = true;
  keep_alive_ = keep_alive_ && !network_.draining();
  out_ += ResponseHead(response, request_.id, static_cast<long long>(response.body.size()),
                       http_1_0_, keep_alive_);
  if (request_.method != "HEAD") out_ += response.body;
  StartWriting();
}

void Connection::StartStream(uint64_t serial, const HttpResponse& head) {
  if (!MayAnswer(serial) || status_ != 0) return;
  status_ = head.status;
  streaming_ = true;
  keep_alive_ = keep_alive_ && !http_1_0_ && !network_.draining();
  out_ += ResponseHead(head, request_.id, -1, http_1_0_, keep_alive_);
  StartWriting();
}

void Connection::Write(uint64_t serial, std::string_view data) {
  if (!MayAnswer(serial) || !streaming_ || data.empty()) return;
  out_ += http_1_0_ ? std::string(data) : Chunk(data);
  if (std::cmp_greater(out_.size() + sending_.size() - sent_, network_.limits().max_unsent_bytes)) {
    return Gone(GoneReason::kTooSlow);
  }
  StartWriting();
}

// In one piece: many clients leave when they have the last event, and then they have all.
void Connection::EndStream(uint64_t serial, std::string_view last_data) {
  if (!MayAnswer(serial) || !streaming_) return;
  if (!last_data.empty()) out_ += http_1_0_ ? std::string(last_data) : Chunk(last_data);
  if (!http_1_0_) out_ += kLastChunk;
  complete_ = true;
  StartWriting();
}

void Connection::OnGone(uint64_t serial, std::function<void(GoneReason)> callback) {
  if (serial != serial_) return;
  if (gone_) return callback(*gone_);
  if (!complete_) on_gone_ = std::move(callback);
}

void Connection::Note(uint64_t serial, std::string_view words) {
  if (serial != serial_) return;
  notes_ += ' ';
  notes_ += words;
}

void Connection::TimeOut() {
  if (state_ != State::kAnswering) return;
  if (status_ != 0) return Gone(GoneReason::kTimedOut);
  TellGone(GoneReason::kTimedOut);
  keep_alive_ = false;
  // A last one for the answer itself.
  request_deadline_.Set(network_.limits().write_timeout,
                        [self = shared_from_this()] { self->Gone(GoneReason::kTooSlow); });
  Send(serial_, ErrorResponse(504, "timeout", "the request took longer than the server allows"));
}

void Connection::StartWriting() {
  if (writing_) return;
  if (out_.empty()) {
    if (complete_) FinishRequest();
    return;
  }
  sending_ = std::exchange(out_, std::string());
  sent_ = 0;
  WriteSome();
}

void Connection::WriteSome() {
  writing_ = true;
  write_deadline_.Set(network_.limits().write_timeout,
                      [self = shared_from_this()] { self->Gone(GoneReason::kTooSlow); });
  socket_.async_write_some(asio::buffer(sending_) + sent_,
                           [self = shared_from_this()](const Error& error, size_t bytes) {
                             self->OnWritten(error, bytes);
                           });
}

void Connection::OnWritten(const Error& error, size_t bytes) {
  writing_ = false;
  if (state_ == State::kClosed) return;
  write_deadline_.Clear();
  if (error) return Gone(GoneReason::kDisconnected);
  sent_ += bytes;
  bytes_sent_ += static_cast<int64_t>(bytes);
  if (sent_ < sending_.size()) return WriteSome();
  sending_.clear();
  sent_ = 0;
  StartWriting();
}

void Connection::FinishRequest() {
  LogRequest("");
  request_deadline_.Clear();
  on_gone_ = nullptr;
  status_ = 0;
  streaming_ = complete_ = false;
  bytes_sent_ = 0;
  notes_.clear();
  if (!keep_alive_) return Linger();
  WaitForRequest();
}

void Connection::LogRequest(std::string_view outcome) {
  const int status = outcome.empty() ? status_ : kClientClosedRequest;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  network_.metrics().CountResponse(route_ == nullptr ? "other" : route_->path, status);
  if (!network_.options().log) return;
  network_.Log(absl::StrFormat("%s %s %s %d %d bytes %.3f s%s%s%s", request_.id, request_.method,
                               route_ == nullptr ? "-" : route_->path, status, bytes_sent_,
                               seconds.count(), notes_, outcome.empty() ? "" : " ",
                               std::string(outcome)));
}

// ---- Ending

// Closed at once, the answer to a request that still arrives could be lost on the way.
void Connection::Linger() {
  state_ = State::kLingering;
  Error ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  buffer_.consume(buffer_.size());
  read_deadline_.Set(kLingerTime, [self = shared_from_this()] { self->Close(); });
  if (!reading_) Watch();
}

void Connection::CloseIfIdle() {
  if (state_ == State::kIdle) Close();
}

void Connection::Gone(GoneReason reason) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kAnswering) {
    LogRequest(GoneReasonName(reason));
    network_.metrics().CountGone(GoneReasonName(reason));
    TellGone(reason);
  }
  Close();
}

void Connection::TellGone(GoneReason reason) {
  gone_ = reason;
  if (const auto callback = std::exchange(on_gone_, nullptr)) callback(reason);
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  read_deadline_.Clear();
  write_deadline_.Clear();
  request_deadline_.Clear();
  on_gone_ = nullptr;
  body_.Release();
  Error ignored;
  socket_.close(ignored);
  network_.Remove(shared_from_this());
}

}  // namespace isobit
