// Lines of requests and receipt files, on any bytes: an error that is short, or a value that prints
// and comes back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/api/completion_json.h"
#include "runtime/api/request_json.h"
#include "runtime/json/strict_json.h"
#include "runtime/receipt/receipt.h"

namespace isobit {
namespace {

constexpr size_t kLongestMessage = 400;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Whatever the input was, the answer to it is a line of JSON.
void CheckError(const std::optional<std::string>& id, const absl::Status& error) {
  Require(!error.message().empty() && error.message().size() < kLongestMessage);
  const std::string line = ErrorToJson(id, error);
  Require(line.find('\n') == std::string::npos && ParseStrictJson(line).ok());
}

void TryRequest(std::string_view text) {
  const ParsedRequest parsed = ParseRequest(text);
  if (!parsed.request.ok()) return CheckError(parsed.id, parsed.request.status());
  const std::string printed = RequestToJson(*parsed.request);
  const ParsedRequest again = ParseRequest(printed);
  Require(again.request.ok() && RequestToJson(*again.request) == printed);
}

void TryReceipt(std::string_view text) {
  const absl::StatusOr<Receipt> receipt = ParseReceipt(text);
  if (!receipt.ok()) return CheckError(std::nullopt, receipt.status());
  const std::string printed = ReceiptToJson(*receipt);
  const absl::StatusOr<Receipt> again = ParseReceipt(printed);
  Require(again.ok() && ReceiptToJson(*again) == printed);
  Require(Compare(*receipt, again->completion).ok());
  RequestOf(*again);
}

}  // namespace
}  // namespace isobit

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  isobit::TryRequest(text);
  isobit::TryReceipt(text);
  return 0;
}
