// Schedules as text: writing and strict reading.

#include <limits>

#include "absl/strings/str_cat.h"
#include "invariance/random_schedule.h"
#include "nlohmann/json.hpp"
#include "runtime/api/json_writer.h"
#include "runtime/api/sampling_json.h"
#include "runtime/json/strict_json.h"
#include "runtime/receipt/atomic_file.h"

namespace isobit {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "isobit schedule";
constexpr int64_t kVersion = 1;
constexpr size_t kMaxScheduleBytes = size_t{1} << 26;

// Reads the members of an object with `read(name, value)`; every name of `names` must be there, and
// no other.
template <typename Read>
absl::Status ReadMembers(const json& object, const std::string& name,
                         std::initializer_list<std::string_view> names, const Read& read) {
  if (!object.is_object()) return JsonTypeError(name, "an object", object);
  for (std::string_view wanted : names) {
    const auto found = object.find(std::string(wanted));
    const std::string full = name.empty() ? std::string(wanted) : name + "." + std::string(wanted);
    if (found == object.end()) return absl::InvalidArgumentError(full + " is missing");
    if (absl::Status s = read(wanted, full, *found); !s.ok()) return s;
  }
  if (object.size() == names.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name.empty() ? "the schedule" : name, " has ",
                                                 object.size() - names.size(),
                                                 " fields that are not known"));
}

absl::Status ReadEngine(const json& value, EngineOptions& engine) {
  return ReadMembers(
      value, "engine",
      {"max_num_seqs", "max_num_batched_tokens", "block_size", "kv_cache_tokens", "prefix_cache"},
      [&](std::string_view name, const std::string& full, const json& field) {
        if (name == "max_num_seqs") return ReadJson(field, full, engine.max_num_seqs);
        if (name == "max_num_batched_tokens") {
          return ReadJson(field, full, engine.max_num_batched_tokens);
        }
        if (name == "block_size") return ReadJson(field, full, engine.block_size);
        if (name == "kv_cache_tokens") return ReadJson(field, full, engine.kv_cache_tokens);
        return ReadJson(field, full, engine.prefix_cache);
      });
}

absl::Status ReadSampling(const json& value, const std::string& name, SamplingParams& params) {
  if (!value.is_object()) return JsonTypeError(name, "an object", value);
  for (const auto& [field, content] : value.items()) {
    if (!IsSamplingField(field)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown field ", DescribeJson(field), " in ", name));
    }
    if (absl::Status s = ReadSamplingField(content, field, params); !s.ok()) return s;
  }
  return ValidateSampling(params, std::numeric_limits<int32_t>::max());
}

absl::Status ReadRequest(const json& value, const std::string& name, ScheduledRequest& scheduled) {
  PreparedRequest& request = scheduled.request;
  absl::Status status = ReadMembers(
      value, name, {"id", "prompt_token_ids", "sampling", "arrive_at_step", "cancel_at_step"},
      [&](std::string_view field, const std::string& full, const json& content) {
        if (field == "id") return ReadJson(content, full, request.id);
        if (field == "prompt_token_ids") return ReadJson(content, full, request.prompt);
        if (field == "sampling") return ReadSampling(content, full, request.sampling);
        if (field == "arrive_at_step") return ReadJson(content, full, scheduled.arrive_at_step);
        return ReadJson(content, full, scheduled.cancel_at_step);
      });
  if (!status.ok()) return status;
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError(name + ".prompt_token_ids is empty");
  }
  if (!request.sampling.seed) {
    return absl::InvalidArgumentError(name + ".sampling.seed must be a number");
  }
  request.seed = *request.sampling.seed;
  return absl::OkStatus();
}

}  // namespace

std::string ScheduleToJson(const RequestSchedule& schedule) {
  const EngineOptions& engine = schedule.engine;
  JsonWriter out;
  out.BeginObject();
  out.Field("format", kFormat).Field("version", kVersion);
  out.Key("engine").BeginObject();
  out.Field("max_num_seqs", engine.max_num_seqs);
  out.Field("max_num_batched_tokens", engine.max_num_batched_tokens);
  out.Field("block_size", engine.block_size).Field("kv_cache_tokens", engine.kv_cache_tokens);
  out.Field("prefix_cache", engine.prefix_cache);
  out.EndObject();
  out.Field("poison_free_pages", schedule.poison_free_pages);
  out.Key("requests").BeginArray();
  for (const ScheduledRequest& scheduled : schedule.requests) {
    SamplingParams sampling = scheduled.request.sampling;
    sampling.seed = scheduled.request.seed;
    out.BeginObject().Field("id", scheduled.request.id);
    out.Field("prompt_token_ids", scheduled.request.prompt);
    out.Key("sampling").BeginObject();
    WriteSamplingFields(sampling, out);
    out.EndObject();
    out.Field("arrive_at_step", scheduled.arrive_at_step);
    out.Field("cancel_at_step", scheduled.cancel_at_step).EndObject();
  }
  out.EndArray();
  return out.EndObject().Take() + "\n";
}

absl::StatusOr<RequestSchedule> ParseSchedule(std::string_view text) {
  const absl::StatusOr<json> document = ParseStrictJson(text);
  if (!document.ok()) return document.status();
  RequestSchedule schedule;
  absl::Status status = ReadMembers(
      *document, "", {"format", "version", "engine", "poison_free_pages", "requests"},
      [&](std::string_view name, const std::string& full, const json& value) {
        if (name == "format" && value != kFormat) {
          return JsonTypeError(full, absl::StrCat("\"", std::string(kFormat), "\""), value);
        }
        if (name == "version" && value != kVersion) {
          return JsonTypeError(full, absl::StrCat(kVersion), value);
        }
        if (name == "engine") return ReadEngine(value, schedule.engine);
        if (name == "poison_free_pages") return ReadJson(value, full, schedule.poison_free_pages);
        if (name != "requests") return absl::OkStatus();
        if (!value.is_array()) return JsonTypeError(full, "an array", value);
        for (size_t i = 0; i < value.size(); ++i) {
          if (absl::Status s = ReadRequest(value[i], absl::StrCat("requests[", i, "]"),
                                           schedule.requests.emplace_back());
              !s.ok()) {
            return s;
          }
        }
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (schedule.requests.empty()) return absl::InvalidArgumentError("requests is empty");
  return schedule;
}

absl::StatusOr<RequestSchedule> ReadSchedule(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxScheduleBytes, "a schedule");
  if (!text.ok()) return text.status();
  absl::StatusOr<RequestSchedule> schedule = ParseSchedule(*text);
  if (schedule.ok()) return schedule;
  return absl::Status(schedule.status().code(),
                      absl::StrCat(path, ": ", schedule.status().message()));
}

}  // namespace isobit
