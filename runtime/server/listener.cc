#include "runtime/server/listener.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/address.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/server/connection.h"
#include "runtime/server/http.h"

namespace isobit {
namespace {

constexpr auto kRetryAfter = std::chrono::milliseconds(100);

// One who is too many gets an answer that costs nothing: what the socket takes at once.
void TurnAway(Socket socket) {
  const HttpResponse response =
      BusyResponse(503, "too_many_connections", "the server has all the connections it takes");
  const std::string text =
      ResponseHead(response, "", static_cast<long long>(response.body.size()), false, false) +
      response.body;
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
  socket.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Listener>> Listener::Open(Network& network, const Router& router,
                                                         const std::string& address, int port) {
  if (port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("port must be in [0, 65535], got ", port));
  }
  boost::system::error_code error;
  const asio::ip::address ip =
      asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("host must be an IP address or localhost, got ", address));
  }
  const asio::ip::tcp::endpoint endpoint(ip, static_cast<unsigned short>(port));
  std::shared_ptr<Listener> listener(new Listener(network, router));
  Acceptor& acceptor = listener->acceptor_;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, " port ", port, ": ", error.message()));
  }
  listener->port_ = acceptor.local_endpoint().port();
  return listener;
}

void Listener::Accept() {
  acceptor_.async_accept(
      network_.context(),
      [self = shared_from_this()](const boost::system::error_code& error, Socket socket) {
        self->OnAccepted(error, std::move(socket));
      });
}

void Listener::OnAccepted(const boost::system::error_code& error, Socket socket) {
  if (!acceptor_.is_open()) return;
  if (error) {
    // Mostly no descriptors left: some will be, soon.
    network_.Log(absl::StrCat("cannot accept: ", error.message()));
    network_.metrics().CountRefused("accept");
    retry_.Set(kRetryAfter, [self = shared_from_this()] { self->Accept(); });
    return;
  }
  if (network_.connections() >= network_.limits().max_connections) {
    network_.metrics().CountRefused("connections");
    TurnAway(std::move(socket));
  } else {
    auto connection = std::make_shared<Connection>(std::move(socket), network_, router_);
    network_.Add(connection);
    connection->Start();
  }
  Accept();
}

void Listener::Close() {
  retry_.Clear();
  boost::system::error_code ignored;
  acceptor_.close(ignored);
}

}  // namespace isobit
