#ifndef ISOBIT_RUNTIME_SERVER_SERVER_H_
#define ISOBIT_RUNTIME_SERVER_SERVER_H_

// An HTTP server before an engine: OpenAI's API, token ids in and out, metrics, and verbs for an
// administrator. runtime/server/SERVER.md says what it answers.
//
// Thread safety: methods may be called from any thread but the engine's.

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/engine/engine.h"
#include "runtime/server/server_options.h"

namespace isobit {

class Server {
 public:
  // Listens from now on. `engine` outlives the server. InvalidArgument names an option and its
  // limit; Unavailable if an address can't be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Engine& engine, ServerOptions options);

  // Ends at once what is left; requests are cancelled.
  ~Server();

  int port() const;
  int admin_port() const;  // 0: there is none

  // Takes no more connections and requests, lets what runs finish, at most for the drain timeout,
  // and cancels the rest. True if nothing had to be cancelled.
  bool Shutdown();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_SERVER_H_
