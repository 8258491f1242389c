#include "runtime/model/config_reader.h"

#include <utility>

namespace isobit {

template <typename T>
T ConfigReader::Take(ConfigKey key, T fallback, bool required) {
  if (!status_.ok()) return fallback;
  std::optional<T> value;
  if (absl::Status s = Read(key, value); !s.ok()) {
    Fail(absl::Status(s.code(), absl::StrCat(Where(key), " ", s.message())));
    return fallback;
  }
  if (value.has_value()) return *std::move(value);
  if (required) Fail(absl::InvalidArgumentError(absl::StrCat(Where(key), " is missing")));
  return fallback;
}

int64_t ConfigReader::Integer(ConfigKey key) { return Take<int64_t>(key, 0, true); }
double ConfigReader::Real(ConfigKey key) { return Take<double>(key, 0, true); }
int64_t ConfigReader::Integer(ConfigKey key, int64_t fallback) {
  return Take<int64_t>(key, fallback, false);
}
double ConfigReader::Real(ConfigKey key, double fallback) {
  return Take<double>(key, fallback, false);
}
bool ConfigReader::Flag(ConfigKey key, bool fallback) { return Take<bool>(key, fallback, false); }
std::string ConfigReader::Text(ConfigKey key, std::string_view fallback) {
  return Take<std::string>(key, std::string(fallback), false);
}
std::vector<int64_t> ConfigReader::Integers(ConfigKey key) {
  return Take<std::vector<int64_t>>(key, {}, false);
}
std::vector<double> ConfigReader::Reals(ConfigKey key) {
  return Take<std::vector<double>>(key, {}, false);
}
std::vector<std::string> ConfigReader::Texts(ConfigKey key) {
  return Take<std::vector<std::string>>(key, {}, false);
}

void ConfigReader::Expect(ConfigKey key, bool expected) {
  if (Flag(key, expected) != expected) {
    Refuse(key, expected ? "false is not supported" : "true is not supported");
  }
}

}  // namespace isobit
