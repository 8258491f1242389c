// A server on a small model, over real sockets. The first byte chooses: raw bytes on a connection,
// or a body for one of its paths. A whole request gets a whole answer, in JSON or as events;
// nothing crashes, hangs or stays behind.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "kernels/backends.h"
#include "runtime/json/strict_json.h"
#include "runtime/server/server.h"
#include "tests/runtime/server/http_client.h"
#include "tests/tiny_model.h"

namespace isobit {
namespace {

constexpr const char* kPaths[] = {"/v1/completions", "/v1/chat/completions", "/generate", "/score",
                                  "/tokenize",       "/detokenize"};

// Small in everything, so that what is valid is soon done.
class SmallServer {
 public:
  SmallServer() {
    GTEST_FLAG_SET(break_on_failure, true);
    auto model = Model::Load(
        WriteTinyModel({.layers = 1, .width = 32, .ffn_width = 32, .context_length = 24}),
        CreateReferenceBackend());
    engine_ = Engine::Create(*std::move(model), {.max_num_seqs = 4}).value();
    ServerOptions options;
    options.port = 0;
    options.limits.max_body_bytes = 1 << 16;
    options.limits.max_header_bytes = 1024;
    options.limits.max_waiting = 4;
    server_ = Server::Start(*engine_, options).value();
  }
  int port() const { return server_->port(); }

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;
};

void Require(bool condition) {
  if (!condition) std::abort();
}

void TryBody(int port, const char* path, std::string_view body) {
  HttpClient client(port);
  client.Send(RequestText("POST", path, std::string(body)));
  const HttpReply reply = client.ReadReply();
  Require(reply.status >= 200 && reply.status != 500);
  if (reply.headers.at("content-type").starts_with("text/event-stream")) {
    reply.Events();
  } else {
    Require(ParseStrictJson(reply.body).ok());
  }
}

void TryBytes(int port, std::string_view bytes) {
  HttpClient client(port);
  client.Send(bytes);
  client.CloseSending();
  client.ReadUntil("no such text");  // to the end, whatever comes
}

}  // namespace
}  // namespace isobit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const isobit::SmallServer server;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t choice = data[0] % (std::size(isobit::kPaths) + 1);
  if (choice < std::size(isobit::kPaths)) {
    // Without a body there is no request to look at.
    if (!rest.empty()) isobit::TryBody(server.port(), isobit::kPaths[choice], rest);
  } else {
    isobit::TryBytes(server.port(), rest);
  }
  return 0;
}
