#include "runtime/api/request_json.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "runtime/api/json_writer.h"
#include "runtime/api/sampling_json.h"
#include "runtime/api/strict_json.h"

namespace isobit {
namespace {

using nlohmann::json;

constexpr std::string_view kPromptFields[] = {"prompt", "prompt_token_ids", "messages"};

// Reads a field that is not a sampling parameter; false if there is no such field.
bool ReadRequestField(const json& value, const std::string& name, Request& request,
                      absl::Status& status) {
  if (name == "id") {
    status = ReadJson(value, name, request.id);
  } else if (name == "prompt") {
    status = ReadJson(value, name, request.prompt.emplace<std::string>());
  } else if (name == "prompt_token_ids") {
    status = ReadJson(value, name, request.prompt.emplace<std::vector<int32_t>>());
  } else if (name == "messages") {
    status = ReadMessages(value, name, request.prompt.emplace<std::vector<ChatMessage>>());
  } else {
    return false;
  }
  return true;
}

absl::Status CheckPromptFields(const json& object) {
  std::string_view found;
  for (const std::string_view name : kPromptFields) {
    if (!object.contains(name)) continue;
    if (!found.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a request has one of prompt, prompt_token_ids and messages, got ",
                       std::string(found), " and ", std::string(name)));
    }
    found = name;
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(
        "a request needs one of prompt, prompt_token_ids and messages, got none");
  }
  return absl::OkStatus();
}

absl::StatusOr<Request> RequestFrom(const json& object) {
  if (!object.contains("id")) return absl::InvalidArgumentError("id is missing");
  Request request;
  for (const auto& [name, value] : object.items()) {
    absl::Status status;
    if (!ReadRequestField(value, name, request, status)) {
      if (!IsSamplingField(name)) {
        return absl::InvalidArgumentError(absl::StrCat("unknown field ", DescribeJson(name)));
      }
      status = ReadSamplingField(value, name, request.sampling);
    }
    if (!status.ok()) return status;
  }
  if (const absl::Status status = CheckPromptFields(object); !status.ok()) return status;
  return request;
}

}  // namespace

absl::Status ReadMessages(const json& value, std::string_view name, std::vector<ChatMessage>& out) {
  out.clear();
  if (!value.is_array() || value.empty()) {
    return JsonTypeError(name, "an array of at least one message", value);
  }
  for (const json& element : value) {
    const std::string place = absl::StrCat(std::string(name), "[", out.size(), "]");
    if (!element.is_object()) return JsonTypeError(place, "an object", element);
    ChatMessage& message = out.emplace_back();
    for (const std::string field : {"role", "content"}) {
      const auto found = element.find(field);
      const std::string field_name = absl::StrCat(place, ".", field);
      if (found == element.end()) {
        return absl::InvalidArgumentError(absl::StrCat(field_name, " is missing"));
      }
      const absl::Status status =
          ReadJson(*found, field_name, field == "role" ? message.role : message.content);
      if (!status.ok()) return status;
    }
    for (const auto& [field, unused] : element.items()) {
      if (field != "role" && field != "content") {
        return absl::InvalidArgumentError(
            absl::StrCat("unknown field ", DescribeJson(field), " in ", place));
      }
    }
  }
  return absl::OkStatus();
}

ParsedRequest ParseRequest(std::string_view line) {
  if (line.size() > kMaxRequestBytes) {
    return {std::nullopt,
            absl::InvalidArgumentError(absl::StrCat("a request must be at most ", kMaxRequestBytes,
                                                    " bytes long, got ", line.size()))};
  }
  absl::StatusOr<json> object = ParseStrictJson(line);
  if (!object.ok()) return {std::nullopt, object.status()};
  if (!object->is_object()) {
    return {std::nullopt, JsonTypeError("a request", "a JSON object", *object)};
  }
  std::optional<std::string> id;
  const auto found = object->find("id");
  if (found != object->end() && found->is_string()) id = found->get<std::string>();
  return {std::move(id), RequestFrom(*object)};
}

std::string RequestToJson(const Request& request) {
  JsonWriter out;
  out.BeginObject().Field("id", request.id);
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    out.Field("prompt", *text);
  } else if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    out.Field("prompt_token_ids", *ids);
  } else {
    out.Key("messages").BeginArray();
    for (const ChatMessage& message : std::get<std::vector<ChatMessage>>(request.prompt)) {
      out.BeginObject().Field("role", message.role).Field("content", message.content).EndObject();
    }
    out.EndArray();
  }
  WriteSamplingFields(request.sampling, out);
  return out.EndObject().Take();
}

}  // namespace isobit
