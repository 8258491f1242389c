#ifndef ISOBIT_RUNTIME_SERVER_HTTP_H_
#define ISOBIT_RUNTIME_SERVER_HTTP_H_

// Requests and responses as handlers see them, and how a request was told to go away. Plain values.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace isobit {

struct HttpRequest {
  std::string id;      // of the request, for logs and answers
  std::string method;  // "GET"
  std::string path;    // without the query
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string body = "";
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};  // names and values are ours
};

// {"error": {"message", "type", "param", "code"}}, as OpenAI's API has it.
HttpResponse ErrorResponse(int status, std::string_view code, std::string_view message);
// The HTTP status that fits.
HttpResponse ErrorResponse(const absl::Status& status);
// 429 or 503: come back in a while.
HttpResponse BusyResponse(int status, std::string_view code, std::string_view message);

// Head of a response; `body_bytes` < 0: the length is not known yet, and the body is chunked, or
// (HTTP/1.0) ends with the connection.
std::string ResponseHead(const HttpResponse& response, std::string_view request_id,
                         long long body_bytes, bool http_1_0, bool keep_alive);
// One chunk of a chunked body. REQUIRES: data is not empty.
std::string Chunk(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// "%41" to "A". What is not a valid escape stays as it is.
std::string PercentDecode(std::string_view text);

// True for an id that may stand in logs and headers: 1 to 64 letters, digits and . _ -
bool IsRequestId(std::string_view text);

// Whether `text` is one of `keys`. Takes a time that depends on the length of `text` and on the
// keys, but not on how much of a key was right.
bool IsOneOf(const std::vector<std::string>& keys, std::string_view text);

}  // namespace isobit

#endif  // ISOBIT_RUNTIME_SERVER_HTTP_H_
