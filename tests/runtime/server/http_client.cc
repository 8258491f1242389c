#include "tests/runtime/server/http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace isobit {
namespace {

constexpr int kPatienceSeconds = 60;

// A call with a time limit fails in a process that was stopped and goes on (signal(7)).
template <class Call>
ssize_t Uninterrupted(const Call& call) {
  ssize_t result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

size_t ToSize(std::string_view digits, int base) {
  size_t size = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), size, base);
  EXPECT_TRUE(result.ec == std::errc()) << "not a size: " << digits;
  return size;
}

}  // namespace

nlohmann::json HttpReply::Json() const {
  nlohmann::json value = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(value.is_discarded()) << "status " << status << ": " << body;
  return value;
}

std::string HttpReply::Error() const {
  const nlohmann::json value = Json();
  if (!value.contains("error")) return "no error: " + body;
  return value["error"]["message"];
}

std::vector<nlohmann::json> HttpReply::Events() const {
  std::vector<nlohmann::json> events;
  std::string_view rest = body;
  bool done = false;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    if (end == std::string_view::npos || !rest.starts_with("data: ") || done) {
      ADD_FAILURE() << "not an event: " << rest;
      break;
    }
    const std::string_view data = rest.substr(6, end - 6);
    rest.remove_prefix(end + 2);
    done = data == "[DONE]";
    if (done) continue;
    events.push_back(nlohmann::json::parse(data, nullptr, false));
    EXPECT_FALSE(events.back().is_discarded()) << data;
  }
  EXPECT_TRUE(done) << "the stream has no end: " << body;
  return events;
}

std::string RequestText(const std::string& method, const std::string& path, const std::string& body,
                        const HttpHeaders& headers) {
  std::string text = absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: localhost\r\n");
  bool typed = false;
  for (const auto& [name, value] : headers) {
    absl::StrAppend(&text, name, ": ", value, "\r\n");
    typed = typed || name == "Content-Type";
  }
  if (!body.empty()) {
    if (!typed) absl::StrAppend(&text, "Content-Type: application/json\r\n");
    absl::StrAppend(&text, "Content-Length: ", body.size(), "\r\n");
  }
  return absl::StrCat(text, "\r\n", body);
}

HttpClient::HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience = {.tv_sec = kPatienceSeconds, .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

HttpClient::~HttpClient() { Close(); }

HttpClient::HttpClient(HttpClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), received_(std::move(other.received_)) {}

bool HttpClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        Uninterrupted([&] { return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void HttpClient::CloseSending() { shutdown(fd_, SHUT_WR); }

void HttpClient::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

void HttpClient::Reset() {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  Close();
}

void HttpClient::ShrinkReceiveBuffer() {
  const int smallest = 1;
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof(smallest));
}

bool HttpClient::Fill() {
  char buffer[16 << 10];
  const ssize_t got = Uninterrupted([&] { return recv(fd_, buffer, sizeof(buffer), 0); });
  if (got <= 0) return false;
  received_.append(buffer, static_cast<size_t>(got));
  return true;
}

std::string HttpClient::ReadUntil(std::string_view text) {
  size_t at;
  while ((at = received_.find(text)) == std::string::npos) {
    if (!Fill()) return std::exchange(received_, "");
  }
  std::string result = received_.substr(0, at + text.size());
  received_.erase(0, at + text.size());
  return result;
}

HttpReply HttpClient::ReadReply() {
  HttpReply reply;
  std::string head = ReadUntil("\r\n\r\n");
  if (head.empty()) return reply;
  EXPECT_TRUE(head.starts_with("HTTP/1.1 ") && head.ends_with("\r\n\r\n")) << head;
  reply.status = static_cast<int>(ToSize(std::string_view(head).substr(9, 3), 10));
  for (size_t begin = head.find("\r\n") + 2; begin + 2 < head.size();) {
    const size_t end = head.find("\r\n", begin), colon = head.find(": ", begin);
    reply.headers[absl::AsciiStrToLower(head.substr(begin, colon - begin))] =
        head.substr(colon + 2, end - colon - 2);
    begin = end + 2;
  }
  if (reply.headers.contains("content-length")) {
    const size_t size = ToSize(reply.headers["content-length"], 10);
    while (received_.size() < size && Fill()) {
    }
    EXPECT_GE(received_.size(), size) << "the body is cut";
    reply.body = received_.substr(0, size);
    received_.erase(0, size);
  } else if (reply.headers.contains("transfer-encoding")) {
    EXPECT_EQ(reply.headers["transfer-encoding"], "chunked");
    while (true) {
      const std::string line = ReadUntil("\r\n");
      if (line.empty()) {
        ADD_FAILURE() << "the stream is cut";
        break;
      }
      const size_t size = ToSize(std::string_view(line).substr(0, line.size() - 2), 16);
      while (received_.size() < size + 2 && Fill()) {
      }
      EXPECT_EQ(received_.substr(size, 2), "\r\n");
      reply.body += received_.substr(0, size);
      received_.erase(0, size + 2);
      if (size == 0) break;
    }
  } else {  // HTTP/1.0: to the end
    while (Fill()) {
    }
    reply.body = std::exchange(received_, "");
  }
  return reply;
}

bool HttpClient::ReadsEnd() {
  char byte;
  if (!received_.empty()) return false;
  const ssize_t got = Uninterrupted([&] { return recv(fd_, &byte, 1, 0); });
  return got == 0 || (got < 0 && errno != EAGAIN);
}

HttpReply Ask(int port, const std::string& method, const std::string& path, const std::string& body,
              const HttpHeaders& headers) {
  HttpClient client(port);
  EXPECT_TRUE(client.Send(RequestText(method, path, body, headers)));
  return client.ReadReply();
}

HttpReply Post(int port, const std::string& path, const nlohmann::json& body,
               const HttpHeaders& headers) {
  return Ask(port, "POST", path, body.dump(), headers);
}

}  // namespace isobit
