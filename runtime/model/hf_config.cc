#include "runtime/model/hf_config.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/json/strict_json.h"
#include "runtime/model/error_text.h"
#include "runtime/model/memory_map.h"

namespace isobit {
namespace {

using nlohmann::json;

// transformers 5 has {"rope_parameters": {"rope_theta": .., "rope_type": .., ...}} where 4 has
// {"rope_theta": .., "rope_scaling": {"rope_type": .., ...}}. Parameters of several kinds of layers
// stay where they are: only the family knows them.
void UnfoldRopeParameters(json& config) {
  const auto found = config.find("rope_parameters");
  if (found == config.end() || !found->is_object()) return;
  for (const auto& [key, value] : found->items()) {
    if (value.is_object()) return;
  }
  for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
    if (found->contains(key) && !config.contains(key)) config[key] = (*found)[key];
  }
  if (!config.contains("rope_scaling") || config["rope_scaling"].is_null()) {
    config["rope_scaling"] = *found;
  }
}

absl::StatusOr<json> ParseObject(std::string_view text, const std::string& path) {
  absl::StatusOr<json> object = ParseStrictJson(text);
  if (!object.ok()) return WithPath(object.status(), path);
  if (!object->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected an object, got ", DescribeJson(*object)));
  }
  return object;
}

}  // namespace

absl::StatusOr<std::string> ReadIfThere(const std::string& path) {
  absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxConfigBytes);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

absl::StatusOr<json> ParseHfConfig(std::string_view text, const std::string& path) {
  absl::StatusOr<json> config = ParseObject(text, path);
  if (!config.ok()) return config;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = config->find(key);
    if (found != config->end() && !found->is_null() && !found->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", key, " must be an object, got ", DescribeJson(*found)));
    }
  }
  UnfoldRopeParameters(*config);
  return config;
}

absl::StatusOr<std::vector<int32_t>> ReadEosIds(const json& config, const std::string& path) {
  const auto eos = config.find("eos_token_id");
  std::vector<int32_t> ids;
  if (eos == config.end() || eos->is_null()) return ids;
  for (const json& id : eos->is_array() ? *eos : json::array({*eos})) {
    if (absl::Status s = ReadJson(id, "eos_token_id", ids.emplace_back()); !s.ok()) {
      return WithPath(s, path);
    }
  }
  return ids;
}

absl::StatusOr<GenerationDefaults> ParseGenerationDefaults(std::string_view text,
                                                           const std::string& path) {
  absl::StatusOr<json> object = ParseObject(text, path);
  if (!object.ok()) return object.status();
  GenerationDefaults defaults;
  std::optional<bool> do_sample;
  absl::Status status;
  const auto read = [&](const char* key, auto& out) {
    const auto found = object->find(key);
    if (found == object->end() || found->is_null() || !status.ok()) return;
    status = ReadJson(*found, key, out);
  };
  read("do_sample", do_sample);
  read("temperature", defaults.temperature);
  read("top_p", defaults.top_p);
  read("min_p", defaults.min_p);
  read("top_k", defaults.top_k);
  read("repetition_penalty", defaults.repetition_penalty);
  if (!status.ok()) return WithPath(status, path);
  absl::StatusOr<std::vector<int32_t>> eos_ids = ReadEosIds(*object, path);
  if (!eos_ids.ok()) return eos_ids.status();
  defaults.eos_ids = *std::move(eos_ids);
  if (do_sample == false && !defaults.temperature) defaults.temperature = 0;
  return defaults;
}

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const std::string& folder) {
  const std::string path = folder + "/generation_config.json";
  const absl::StatusOr<std::string> text = ReadIfThere(path);
  if (!text.ok()) return text.status();
  return text->empty() ? GenerationDefaults{} : ParseGenerationDefaults(*text, path);
}

const json* HfConfigReader::Find(ConfigKey key) const {
  if (key.hugging_face.empty()) return nullptr;
  const json* at = &config_;
  std::string_view rest = key.hugging_face;
  while (true) {
    const size_t dot = rest.find('.');
    if (!at->is_object()) return nullptr;
    const auto found = at->find(std::string(rest.substr(0, dot)));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
    if (dot == rest.npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

bool HfConfigReader::Has(ConfigKey key) const { return Find(key) != nullptr; }

std::string HfConfigReader::Where(ConfigKey key) const {
  return absl::StrCat(path_, ": ", Absl(key.hugging_face.empty() ? key.gguf : key.hugging_face));
}

template <typename T>
absl::Status HfConfigReader::ReadScalar(ConfigKey key, std::optional<T>& out) const {
  out.reset();
  const json* value = Find(key);
  if (value == nullptr) return absl::OkStatus();
  absl::Status status = ReadJson(*value, "", out.emplace());
  if (status.ok()) return status;
  // " must be an integer, got ..." without the name that the reader puts before it.
  return absl::InvalidArgumentError(status.message().substr(1));
}

template <typename T>
absl::Status HfConfigReader::ReadArray(ConfigKey key, std::optional<std::vector<T>>& out) const {
  out.reset();
  const json* value = Find(key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("must be an array, got ", DescribeJson(*value)));
  }
  out.emplace();
  for (const json& element : *value) {
    T item{};
    if (absl::Status s = ReadJson(element, "", item); !s.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("has an element that", s.message()));
    }
    out->push_back(std::move(item));
  }
  return absl::OkStatus();
}

absl::Status HfConfigReader::Read(ConfigKey key, std::optional<int64_t>& out) const {
  return ReadScalar(key, out);
}
absl::Status HfConfigReader::Read(ConfigKey key, std::optional<double>& out) const {
  return ReadScalar(key, out);
}
absl::Status HfConfigReader::Read(ConfigKey key, std::optional<bool>& out) const {
  return ReadScalar(key, out);
}
absl::Status HfConfigReader::Read(ConfigKey key, std::optional<std::string>& out) const {
  return ReadScalar(key, out);
}
absl::Status HfConfigReader::Read(ConfigKey key, std::optional<std::vector<int64_t>>& out) const {
  return ReadArray(key, out);
}
absl::Status HfConfigReader::Read(ConfigKey key, std::optional<std::vector<double>>& out) const {
  return ReadArray(key, out);
}
absl::Status HfConfigReader::Read(ConfigKey key,
                                  std::optional<std::vector<std::string>>& out) const {
  return ReadArray(key, out);
}

}  // namespace isobit
