#ifndef ISOBIT_TESTS_RUNTIME_SERVER_HTTP_CLIENT_H_
#define ISOBIT_TESTS_RUNTIME_SERVER_HTTP_CLIENT_H_

// A plain HTTP client over a real socket, with every byte in the test's hands. It reads strictly:
// what is no HTTP, or no server-sent events, is a test failure.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace isobit {

struct HttpReply {
  int status = 0;                              // 0: there was none
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  nlohmann::json Json() const;
  // Message of an error.
  std::string Error() const;
  // Events of a stream, without the last one, "[DONE]".
  std::vector<nlohmann::json> Events() const;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The text of a request. A body that is there gets its length and, unless `headers` name another,
// the type of JSON.
std::string RequestText(const std::string& method, const std::string& path,
                        const std::string& body = "", const HttpHeaders& headers = {});

class HttpClient {
 public:
  // Connects to 127.0.0.1.
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;

  // False if the server has closed.
  bool Send(std::string_view bytes);
  void CloseSending();
  void Close();
  void Reset();  // closes so that the other side gets an error
  // As small as the system allows, so that a server soon has to wait.
  void ShrinkReceiveBuffer();

  // What comes within a minute: until `text` is there, or the server closes.
  std::string ReadUntil(std::string_view text);
  HttpReply ReadReply();
  // True if the server closes without saying more, within a minute.
  bool ReadsEnd();

 private:
  bool Fill();

  int fd_ = -1;
  std::string received_;
};

// A connection for one request.
HttpReply Ask(int port, const std::string& method, const std::string& path,
              const std::string& body = "", const HttpHeaders& headers = {});
HttpReply Post(int port, const std::string& path, const nlohmann::json& body,
               const HttpHeaders& headers = {});

}  // namespace isobit

#endif  // ISOBIT_TESTS_RUNTIME_SERVER_HTTP_CLIENT_H_
