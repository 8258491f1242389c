#include "runtime/model/gguf_config.h"

#include "absl/strings/str_cat.h"
#include "runtime/model/error_text.h"

namespace isobit {

std::string GgufConfigReader::FullKey(ConfigKey key) const {
  return absl::StrCat(architecture_, ".", Absl(key.gguf));
}

const GgufField* GgufConfigReader::Find(ConfigKey key) const {
  return key.gguf.empty() ? nullptr : file_.FindField(FullKey(key));
}

bool GgufConfigReader::Has(ConfigKey key) const { return Find(key) != nullptr; }

std::string GgufConfigReader::Where(ConfigKey key) const {
  return absl::StrCat(file_.path(), ": ",
                      key.gguf.empty() ? std::string(key.hugging_face) : FullKey(key));
}

template <typename Stored, typename T>
absl::Status GgufConfigReader::ReadAs(ConfigKey key, std::optional<T>& out) const {
  out.reset();
  const GgufField* field = Find(key);
  if (field == nullptr) return absl::OkStatus();
  const absl::StatusOr<Stored> value = Decode<Stored>(*field);
  if (!value.ok()) return value.status();
  if constexpr (std::is_same_v<Stored, T>) {
    out = *value;
  } else if constexpr (std::is_constructible_v<T, const Stored&>) {
    out = T(*value);
  } else {
    out.emplace(value->begin(), value->end());
  }
  return absl::OkStatus();
}

absl::Status GgufConfigReader::Read(ConfigKey key, std::optional<int64_t>& out) const {
  return ReadAs<int64_t>(key, out);
}
absl::Status GgufConfigReader::Read(ConfigKey key, std::optional<double>& out) const {
  return ReadAs<double>(key, out);
}
absl::Status GgufConfigReader::Read(ConfigKey key, std::optional<bool>& out) const {
  return ReadAs<bool>(key, out);
}
absl::Status GgufConfigReader::Read(ConfigKey key, std::optional<std::string>& out) const {
  return ReadAs<std::string_view>(key, out);
}
absl::Status GgufConfigReader::Read(ConfigKey key, std::optional<std::vector<int64_t>>& out) const {
  return ReadAs<std::vector<int64_t>>(key, out);
}
absl::Status GgufConfigReader::Read(ConfigKey key, std::optional<std::vector<double>>& out) const {
  return ReadAs<std::vector<float>>(key, out);
}
absl::Status GgufConfigReader::Read(ConfigKey key,
                                    std::optional<std::vector<std::string>>& out) const {
  return ReadAs<std::vector<std::string_view>>(key, out);
}

}  // namespace isobit
