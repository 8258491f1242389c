#ifndef ISOBIT_RUNTIME_SERVER_LISTENER_H_
#define ISOBIT_RUNTIME_SERVER_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/server/asio.h"
#include "runtime/server/network.h"
#include "runtime/server/router.h"

namespace isobit {

// Takes connections at one address. On the network thread, but for Open.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // `address` is an IP address or "localhost"; port 0 is any that is free. InvalidArgument for what
  // is no address, Unavailable if it can't be had. `network` and `router` outlive it.
  static absl::StatusOr<std::shared_ptr<Listener>> Open(Network& network, const Router& router,
                                                        const std::string& address, int port);

  int port() const { return port_; }
  void Accept();
  void Close();

 private:
  Listener(Network& network, const Router& router)
      : network_(network),
        router_(router),
        acceptor_(network.context().get_executor()),
        retry_(network.context().get_executor()) {}
  void OnAccepted(const boost::system::error_code& error, Socket socket);

  Network& network_;
  const Router& router_;
  Acceptor acceptor_;
  Deadline retry_;
  int port_ = 0;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_LISTENER_H_
