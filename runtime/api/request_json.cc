#include "runtime/api/request_json.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "runtime/api/json_writer.h"
#include "runtime/api/sampling_json.h"
#include "runtime/json/strict_json.h"

namespace isobit {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kPromptFields[] = {"prompt", "prompt_token_ids", "messages"};
constexpr std::string_view kMessageFields[] = {
    "name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning", "thinking"};

// Reads a field that is not a sampling parameter; false if there is no such field.
bool ReadRequestField(const ordered_json& value, const std::string& name, Request& request,
                      absl::Status& status) {
  if (name == "id") {
    status = ReadJson(value, name, request.id);
  } else if (name == "prompt") {
    status = ReadJson(value, name, request.prompt.emplace<std::string>());
  } else if (name == "prompt_token_ids") {
    status = ReadJson(value, name, request.prompt.emplace<std::vector<int32_t>>());
  } else if (name == "messages") {
    status = ReadMessages(value, name, request.prompt.emplace<std::vector<ChatMessage>>());
  } else if (name == "tools") {
    status = ReadTools(value, name, request.tools);
  } else if (name == "chat_template_kwargs") {
    status = ReadChatTemplateKwargs(value, name, request.chat_template_kwargs);
  } else {
    return false;
  }
  return true;
}

absl::Status CheckPromptFields(const ordered_json& object) {
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
  for (const std::string_view name : {"tools", "chat_template_kwargs"}) {
    if (object.contains(name) && found != "messages") {
      return absl::InvalidArgumentError(absl::StrCat(
          std::string(name), " must come with messages, got it with ", std::string(found)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Request> ReadRequest(const ordered_json& object) {
  if (!object.is_object()) return JsonTypeError("a request", "a JSON object", object);
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

absl::Status ReadTools(const ordered_json& value, std::string_view name, std::string& out) {
  out.clear();
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_array()) return JsonTypeError(name, "an array of objects", value);
  for (const ordered_json& element : value) {
    if (!element.is_object()) return JsonTypeError(name, "an array of objects", value);
  }
  if (!value.empty()) out = value.dump();
  return absl::OkStatus();
}

absl::Status ReadChatTemplateKwargs(const ordered_json& value, std::string_view name,
                                    std::string& out) {
  out.clear();
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_object()) return JsonTypeError(name, "an object", value);
  if (!value.empty()) out = value.dump();
  return absl::OkStatus();
}

namespace {

// What may stand besides a text: parts, or nothing where tools are called.
absl::Status ReadContent(const ordered_json& message, const std::string& place, ChatMessage& out,
                         ordered_json& fields) {
  const auto found = message.find("content");
  const bool calls = message.contains("tool_calls");
  const std::string name = absl::StrCat(place, ".content");
  if (found == message.end()) {
    fields["content"] = nullptr;
    if (calls) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, " is missing"));
  }
  if (found->is_array() || (found->is_null() && calls)) {
    fields["content"] = *found;
    return absl::OkStatus();
  }
  return ReadJson(*found, name, out.content);
}

absl::Status ReadMessage(const ordered_json& element, const std::string& place, ChatMessage& out) {
  ordered_json fields = ordered_json::object();
  const auto role = element.find("role");
  if (role == element.end()) {
    return absl::InvalidArgumentError(absl::StrCat(place, ".role is missing"));
  }
  if (auto s = ReadJson(*role, absl::StrCat(place, ".role"), out.role); !s.ok()) return s;
  if (auto s = ReadContent(element, place, out, fields); !s.ok()) return s;
  for (const auto& [field, value] : element.items()) {
    if (field == "role" || field == "content") continue;
    if (std::ranges::find(kMessageFields, field) == std::end(kMessageFields)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown field ", DescribeJson(field), " in ", place));
    }
    fields[field] = value;
  }
  if (!fields.empty()) out.fields = fields.dump();
  return absl::OkStatus();
}

void WriteMessage(const ChatMessage& message, JsonWriter& out) {
  out.BeginObject().Field("role", message.role);
  const ordered_json fields =
      ParseStrictJsonInOrder(message.fields).value_or(ordered_json::object());
  if (!fields.contains("content")) out.Field("content", message.content);
  for (const auto& [name, value] : fields.items()) out.Key(name).Raw(value.dump());
  out.EndObject();
}

}  // namespace

absl::Status ReadMessages(const ordered_json& value, std::string_view name,
                          std::vector<ChatMessage>& out) {
  out.clear();
  if (!value.is_array() || value.empty()) {
    return JsonTypeError(name, "an array of at least one message", value);
  }
  for (const ordered_json& element : value) {
    const std::string place = absl::StrCat(std::string(name), "[", out.size(), "]");
    if (!element.is_object()) return JsonTypeError(place, "an object", element);
    if (auto s = ReadMessage(element, place, out.emplace_back()); !s.ok()) return s;
  }
  return absl::OkStatus();
}

ParsedRequest ParseRequest(std::string_view line) {
  if (line.size() > kMaxRequestBytes) {
    return {std::nullopt,
            absl::InvalidArgumentError(absl::StrCat("a request must be at most ", kMaxRequestBytes,
                                                    " bytes long, got ", line.size()))};
  }
  const absl::StatusOr<ordered_json> object = ParseStrictJsonInOrder(line);
  if (!object.ok()) return {std::nullopt, object.status()};
  std::optional<std::string> id;
  const auto found = object->find("id");
  if (found != object->end() && found->is_string()) id = found->get<std::string>();
  return {std::move(id), ReadRequest(*object)};
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
      WriteMessage(message, out);
    }
    out.EndArray();
    if (!request.tools.empty()) out.Key("tools").Raw(request.tools);
    if (!request.chat_template_kwargs.empty()) {
      out.Key("chat_template_kwargs").Raw(request.chat_template_kwargs);
    }
  }
  WriteSamplingFields(request.sampling, out);
  return out.EndObject().Take();
}

}  // namespace isobit
