#ifndef ISOBIT_RUNTIME_SERVER_ASIO_H_
#define ISOBIT_RUNTIME_SERVER_ASIO_H_

// The types of Boost.Asio that the server uses, with the executor of its one network thread.

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

namespace isobit {

namespace asio = boost::asio;

using NetworkExecutor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<asio::ip::tcp, NetworkExecutor>;
using Acceptor = asio::basic_socket_acceptor<asio::ip::tcp, NetworkExecutor>;
using Timer =
    asio::basic_waitable_timer<std::chrono::steady_clock,
                               asio::wait_traits<std::chrono::steady_clock>, NetworkExecutor>;

// A time limit that is set again and again. On the network thread only.
class Deadline {
 public:
  explicit Deadline(const NetworkExecutor& executor) : timer_(executor) {}

  // `expire` is called once after `after`, unless Set or Clear comes before; it must keep this
  // object alive.
  template <typename F>
  void Set(std::chrono::milliseconds after, F expire) {
    timer_.expires_after(after);
    timer_.async_wait([this, ticket = ++ticket_,
                       expire = std::move(expire)](const boost::system::error_code& error) {
      if (!error && ticket == ticket_) expire();
    });
  }
  void Clear() {
    ++ticket_;
    timer_.cancel();
  }

 private:
  Timer timer_;
  uint64_t ticket_ = 0;  // a wait that was over when it was cancelled is told apart
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_ASIO_H_
