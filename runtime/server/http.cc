#include "runtime/server/http.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <cctype>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/api/completion_json.h"
#include "runtime/api/json_writer.h"

namespace isobit {
namespace {

constexpr int kRetryAfterSeconds = 1;

const char* ErrorType(int status) {
  switch (status) {
    case 401:
    case 403:
      return "authentication_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

HttpResponse ErrorResponse(int status, std::string_view code, std::string_view message) {
  JsonWriter out;
  out.BeginObject().Key("error").BeginObject();
  out.Field("message", message).Field("type", ErrorType(status));
  out.Key("param").Null().Field("code", code);
  return {.status = status, .body = out.EndObject().EndObject().Take()};
}

HttpResponse ErrorResponse(const absl::Status& status) {
  const int http_status = HttpStatusOf(status);
  // What a server can be asked for by name is a model.
  const std::string_view code = http_status == 404 ? "model_not_found" : ErrorCode(status);
  const std::string message(status.message());
  return http_status == 503 ? BusyResponse(503, code, message)
                            : ErrorResponse(http_status, code, message);
}

HttpResponse BusyResponse(int status, std::string_view code, std::string_view message) {
  HttpResponse response = ErrorResponse(status, code, message);
  response.headers.emplace_back("Retry-After", absl::StrCat(kRetryAfterSeconds));
  return response;
}

std::string ResponseHead(const HttpResponse& response, std::string_view request_id,
                         long long body_bytes, bool http_1_0, bool keep_alive) {
  namespace http = boost::beast::http;
  const auto reason = http::obsolete_reason(http::int_to_status(unsigned(response.status)));
  std::string head = absl::StrCat("HTTP/1.1 ", response.status, " ");
  head.append(reason.data(), reason.size());
  absl::StrAppend(&head, "\r\nServer: isobit\r\nDate: ",
                  absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT", absl::Now(), absl::UTCTimeZone()),
                  "\r\nContent-Type: ", response.content_type,
                  "\r\nX-Content-Type-Options: nosniff\r\n");
  if (!request_id.empty()) {
    absl::StrAppend(&head, "X-Request-Id: ", std::string(request_id), "\r\n");
  }
  for (const auto& [name, value] : response.headers) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  if (body_bytes >= 0) {
    absl::StrAppend(&head, "Content-Length: ", body_bytes, "\r\n");
  } else if (!http_1_0) {
    absl::StrAppend(&head, "Transfer-Encoding: chunked\r\n");
  }
  return absl::StrCat(head, "Connection: ", keep_alive ? "keep-alive" : "close", "\r\n\r\n");
}

std::string Chunk(std::string_view data) {
  std::string chunk = absl::StrFormat("%x\r\n", data.size());
  chunk.append(data).append("\r\n");
  return chunk;
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() && text[i + 1] != '-') {
      const char* digits = text.data() + i + 1;
      if (std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
        decoded += static_cast<char>(byte);
        i += 2;
        continue;
      }
    }
    decoded += text[i];
  }
  return decoded;
}

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool IsOneOf(const std::vector<std::string>& keys, std::string_view text) {
  unsigned found = 0;
  for (const std::string& key : keys) {
    size_t difference = key.size() ^ text.size();
    for (size_t i = 0; i < text.size(); ++i) {
      const char expected = key.empty() ? '\0' : key[i % key.size()];
      difference |= static_cast<unsigned char>(expected ^ text[i]);
    }
    // Every key is looked at to its end.
    found |= static_cast<unsigned>(difference == 0);
  }
  return found != 0;
}

}  // namespace isobit
