#include "tools/isobit/resume.h"

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/contract_version.h"
#include "nlohmann/json.hpp"
#include "runtime/api/request_json.h"
#include "runtime/json/strict_json.h"

namespace isobit {
namespace {

using nlohmann::json;

// Completions are longer than requests: thousands of tokens with a hundred alternatives each.
constexpr size_t kMaxAnswerBytes = size_t{1} << 30;

json IdOf(const ParsedRequest& request) {
  return request.id.has_value() ? json(*request.id) : json(nullptr);
}

absl::Status Mismatch(std::string_view what, const json& answer, const json& request) {
  return absl::FailedPreconditionError(absl::StrCat(std::string(what), " is ", DescribeJson(answer),
                                                    ", not ", DescribeJson(request)));
}

// OK if `answer` can be the one to `request`.
absl::Status CheckAnswer(const ParsedRequest& parsed, const json& answer,
                         const Digest& model_digest) {
  if (!answer.is_object()) return JsonTypeError("an answer", "an object", answer);
  const auto field = [&answer](const char* name) {
    const auto found = answer.find(name);
    return found == answer.end() ? json(nullptr) : *found;
  };
  if (field("id") != IdOf(parsed)) return Mismatch("id", field("id"), IdOf(parsed));
  if (answer.contains("error")) return absl::OkStatus();
  if (!parsed.request.ok()) {
    return absl::FailedPreconditionError("a completion of a request that can't be read");
  }
  if (field("model_digest") != model_digest.ToHex()) {
    return Mismatch("model_digest", field("model_digest"), model_digest.ToHex());
  }
  if (field("contract") != kContractVersion) {
    return Mismatch("contract", field("contract"), kContractVersion);
  }
  const Request& request = *parsed.request;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt);
      ids != nullptr && field("prompt_token_ids") != *ids) {
    return absl::FailedPreconditionError("prompt_token_ids are others");
  }
  if (request.sampling.seed.has_value() && request.sampling.temperature > 0 &&
      field("seed") != *request.sampling.seed) {
    return Mismatch("seed", field("seed"), *request.sampling.seed);
  }
  return absl::OkStatus();
}

// The next line, reading on as needed; none at the end.
absl::StatusOr<std::optional<Line>> NextLine(LineReader& reader) {
  while (true) {
    if (std::optional<Line> line = reader.Next()) return line;
    if (reader.at_end()) return std::nullopt;
    if (const absl::Status status = reader.Fill(); !status.ok()) return status;
  }
}

absl::Status CheckLine(const Line& line, LineReader& input, const Digest& model_digest,
                       bool& failed) {
  if (line.too_long) return absl::FailedPreconditionError("the line is too long");
  const absl::StatusOr<json> answer = ParseStrictJson(line.text);
  if (!answer.ok()) return answer.status();
  absl::StatusOr<std::optional<Line>> request = NextLine(input);
  if (!request.ok()) return request.status();
  if (!request->has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(input.name(), " has no request for it"));
  }
  failed = answer->is_object() && answer->contains("error");
  return CheckAnswer(ParseRequest((*request)->text), *answer, model_digest);
}

}  // namespace

absl::StatusOr<Answered> ResumeAfter(const Digest& model_digest, LineReader& input,
                                     OutputFile& output) {
  Answered answered;
  int64_t kept_bytes = 0;
  if (lseek(output.fd(), 0, SEEK_SET) < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", output.name()));
  }
  LineReader answers(output.fd(), output.name(), kMaxAnswerBytes);
  while (true) {
    const absl::StatusOr<std::optional<Line>> line = NextLine(answers);
    if (!line.ok()) return line.status();
    if (!line->has_value() || !(*line)->terminated) break;
    bool failed = false;
    const absl::Status status = CheckLine(**line, input, model_digest, failed);
    if (!status.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "can't resume: line ", (*line)->number, " of ", output.name(),
          " is not the answer to its request in ", input.name(), ": ", status.message()));
    }
    ++answered.requests;
    answered.failed += failed;
    kept_bytes += static_cast<int64_t>((*line)->bytes);
  }
  if (const absl::Status status = output.Truncate(kept_bytes); !status.ok()) return status;
  return answered;
}

}  // namespace isobit
