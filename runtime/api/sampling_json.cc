#include "runtime/api/sampling_json.h"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/json/strict_json.h"

namespace isobit {
namespace {

using nlohmann::json;
using LogitBias = std::vector<std::pair<int32_t, double>>;

// ---- Stop strings: one string or an array of them; null is none.

absl::Status ReadStop(const json& value, std::string_view name, SamplingParams& params) {
  params.stop.clear();
  if (value.is_null()) return absl::OkStatus();
  if (value.is_string()) return ReadJson(value, name, params.stop.emplace_back());
  if (!value.is_array()) return JsonTypeError(name, "a string or an array of strings", value);
  for (const json& element : value) {
    const std::string element_name = absl::StrCat(std::string(name), "[", params.stop.size(), "]");
    const absl::Status status = ReadJson(element, element_name, params.stop.emplace_back());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// ---- Logit bias: an object from token id, in decimal, to bias; null is none.

absl::Status ReadLogitBias(const json& value, std::string_view name, SamplingParams& params) {
  params.logit_bias.clear();
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_object()) return JsonTypeError(name, "an object of token ids", value);
  for (const auto& [key, bias] : value.items()) {
    int32_t token = 0;
    const char* end = key.data() + key.size();
    const std::from_chars_result parsed = std::from_chars(key.data(), end, token);
    // One spelling a token, so that no token stands there twice.
    if (parsed.ec != std::errc() || parsed.ptr != end || key != std::to_string(token)) {
      return JsonTypeError(absl::StrCat("a name in ", std::string(name)),
                           "a token id, an integer in decimal", key);
    }
    double number = 0;
    const absl::Status status =
        ReadJson(bias, absl::StrCat(std::string(name), " of token ", token), number);
    if (!status.ok()) return status;
    params.logit_bias.emplace_back(token, number);
  }
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  return absl::OkStatus();
}

void WriteLogitBias(const LogitBias& bias, JsonWriter& out) {
  out.BeginObject();
  for (const auto& [token, number] : bias) out.Field(std::to_string(token), number);
  out.EndObject();
}

// ---- Log-probability mode

constexpr std::pair<std::string_view, LogProbsMode> kModes[] = {
    {"raw", LogProbsMode::kRaw}, {"processed", LogProbsMode::kProcessed}};

absl::Status ReadMode(const json& value, std::string_view name, SamplingParams& params) {
  if (value.is_string()) {
    for (const auto& [text, mode] : kModes) {
      if (value.get_ref<const std::string&>() != text) continue;
      params.logprobs_mode = mode;
      return absl::OkStatus();
    }
  }
  return JsonTypeError(name, "\"raw\" or \"processed\"", value);
}

void WriteMode(const SamplingParams& params, JsonWriter& out) {
  for (const auto& [text, mode] : kModes) {
    if (mode == params.logprobs_mode) out.Value(text);
  }
}

// ---- The table of all parameters

struct Field {
  std::string_view name;
  absl::Status (*read)(const json& value, std::string_view name, SamplingParams& params);
  void (*write)(const SamplingParams& params, JsonWriter& out);
};

template <auto kMember>
absl::Status ReadMember(const json& value, std::string_view name, SamplingParams& params) {
  return ReadJson(value, name, params.*kMember);
}

template <auto kMember>
void WriteMember(const SamplingParams& params, JsonWriter& out) {
  out.Value(params.*kMember);
}

template <auto kMember>
constexpr Field Plain(std::string_view name) {
  return {name, ReadMember<kMember>, WriteMember<kMember>};
}

constexpr Field kFields[] = {
    Plain<&SamplingParams::max_tokens>("max_tokens"),
    Plain<&SamplingParams::min_tokens>("min_tokens"),
    Plain<&SamplingParams::temperature>("temperature"),
    Plain<&SamplingParams::top_k>("top_k"),
    Plain<&SamplingParams::top_p>("top_p"),
    Plain<&SamplingParams::min_p>("min_p"),
    Plain<&SamplingParams::seed>("seed"),
    Plain<&SamplingParams::n>("n"),
    Plain<&SamplingParams::presence_penalty>("presence_penalty"),
    Plain<&SamplingParams::frequency_penalty>("frequency_penalty"),
    Plain<&SamplingParams::repetition_penalty>("repetition_penalty"),
    {"logit_bias", ReadLogitBias,
     [](const SamplingParams& params, JsonWriter& out) { WriteLogitBias(params.logit_bias, out); }},
    {"stop", ReadStop, WriteMember<&SamplingParams::stop>},
    Plain<&SamplingParams::stop_token_ids>("stop_token_ids"),
    Plain<&SamplingParams::ignore_eos>("ignore_eos"),
    Plain<&SamplingParams::logprobs>("logprobs"),
    Plain<&SamplingParams::prompt_logprobs>("prompt_logprobs"),
    {"logprobs_mode", ReadMode, WriteMode},
};

const Field* Find(std::string_view name) {
  const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                   [name](const Field& f) { return f.name == name; });
  return field == std::end(kFields) ? nullptr : field;
}

}  // namespace

bool IsSamplingField(std::string_view name) { return Find(name) != nullptr; }

absl::Status ReadSamplingField(const json& value, std::string_view name, SamplingParams& params) {
  const Field* field = Find(name);
  assert(field != nullptr);
  return field->read(value, field->name, params);
}

void WriteSamplingFields(const SamplingParams& params, JsonWriter& out) {
  for (const Field& field : kFields) {
    out.Key(field.name);
    field.write(params, out);
  }
}

}  // namespace isobit
